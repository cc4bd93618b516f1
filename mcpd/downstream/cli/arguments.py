"""From the words of `mcpd call` to the JSON of the tool's arguments.

`k=v` is typed by the tool's schema, and text where that allows text: `zip=01007` keeps its zero.
`k:=json` is JSON as it stands, to the last digit. `k=@file` and `k:=@file` take it from a file that the
client has read, and `@@` is one `@`. `k[]=v` appends to an array, `a.b=v` goes into an object. One word
`{…}` is the whole object; so is `--args`, to which words may add.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from mcpd.downstream.cli import schema as schemas
from mcpd.downstream.cli.checks import check
from mcpd.downstream.cli.text import one_line
from mcpd.downstream.cli.values import SHOWN_CHARACTERS, encoded_text, json_value, typed
from mcpd.errors import BadRequest
from mcpd.protocol import rawjson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpd.downstream.cli.commandline import CallCommand
    from mcpd.downstream.cli.schema import Shape
    from mcpd.downstream.cli.values import Tree

    Files = Mapping[str, str | bytes]

# A key is a path through objects; nobody types a longer one.
MAX_KEY_CHARACTERS = 1000
MAX_KEY_PARTS = 32

_MEMBERS = msgspec.json.Decoder(dict[str, Raw])


class Word(Struct, frozen=True):
    """One argument, as typed.

    Args:
        key: what is before `=` or `:=`.
        text: what is behind it.
        is_json: whether that is JSON, whatever the schema says.
    """

    key: str
    text: str
    is_json: bool


class Place(Struct, frozen=True):
    """Where a key leads to: the names on the way, and what the schema says about the value there."""

    names: Sequence[str]
    shape: Shape | None
    appends: bool


def needs_schema(command: CallCommand) -> bool:
    """Tell whether the arguments cannot be built without the tool's schema.

    Raises:
        BadRequest: A word is no argument; no schema would help.
    """
    if _is_whole(command.words):
        return False
    try:
        words = [parse_word(word) for word in command.words]
    except BadRequest as problem:
        raise _with_hint(problem, command) from None
    return any(not word.is_json or "." in word.key or word.key.endswith("[]") for word in words)


def build(command: CallCommand, schema: bytes | None, files: Files) -> bytes:
    """Return the JSON of the arguments, in one line.

    Args:
        command: what was typed; with its `check` off nothing is refused for the sake of the schema.
        schema: the tool's `inputSchema`; None if it is not known.
        files: what the client has read, by the names after `@`; `-` is its standard input.

    Raises:
        BadRequest: What was typed is no object of arguments, or one that the schema certainly refuses.
    """
    try:
        return _build(command, schemas.read(schema), files)
    except BadRequest as problem:
        raise _with_hint(problem, command) from None


def _with_hint(problem: BadRequest, command: CallCommand) -> BadRequest:
    problem.server = command.server
    problem.hint = problem.hint or f"mcpd tools {command.server}.{command.tool}"
    return problem


def _build(command: CallCommand, shape: Shape | None, files: Files) -> bytes:
    whole, words = _whole(command, files), () if _is_whole(command.words) else command.words
    tree: dict[str, Tree] = {}
    if whole is not None:
        tree.update(_MEMBERS.decode(whole))
    for text in words:
        _add(tree, shape, parse_word(text), files)
    if command.check and shape is not None:
        check(tree, shape, tool=command.tool)
    # Untouched, it keeps what a dictionary loses: the order of equal names, the escapes in names.
    return bytes(whole) if whole is not None and not words else msgspec.json.encode(tree)


def _is_whole(words: Sequence[str]) -> bool:
    return len(words) == 1 and words[0].lstrip().startswith(("{", "[", '"'))


def _whole(command: CallCommand, files: Files) -> Raw | None:
    """Return the object that was given in one piece, if any."""
    text, what = command.args, "--args"
    if _is_whole(command.words):
        if text is not None:
            raise BadRequest("the whole object is given twice, as a word and with --args")
        return _object(command.words[0], "the only argument")
    if text is None:
        return None
    if text == "-" or text.startswith("@"):
        name = text.removeprefix("@")
        text, what = _text_of(name, files), _file_name(name)
    return _object(text, what)


def _object(text: str, what: str) -> Raw:
    value = json_value(text, what)
    if (kind := rawjson.kind(value)) != "an object":
        raise BadRequest(f"{what} must be an object, not {kind}")
    return value


def parse_word(word: str) -> Word:
    """Split an argument at its first `=`.

    Raises:
        BadRequest: It has none, or no key.
    """
    key, equals, text = word.partition("=")
    is_json = key.endswith(":")
    key = key.removesuffix(":")
    shown = one_line(word, 60)
    if word.startswith("{"):
        raise BadRequest("an object must be the only argument", reason="beside other arguments it goes into --args")
    if not equals:
        raise BadRequest(f"'{shown}' is no argument", reason="write KEY=VALUE, KEY:=JSON, KEY=@FILE or KEY[]=VALUE")
    if not key or key == "[]":
        raise BadRequest(f"'{shown}' has no key before its =")
    if len(key) > MAX_KEY_CHARACTERS:
        raise BadRequest(f"the key '{one_line(key, 60)}' has more than {MAX_KEY_CHARACTERS} characters")
    encoded_text(key, f"the key '{one_line(ascii(key), 60)}'")
    return Word(key, text, is_json)


# -- one word --------------------------------------------------------------------------------------


def _add(tree: dict[str, Tree], shape: Shape | None, word: Word, files: Files) -> None:
    place = _place(word.key, shape)
    for name in place.names[:-1]:
        inner = tree.setdefault(name, {})
        if not isinstance(inner, dict):
            raise _given_twice(word.key)
        tree = inner
    name = place.names[-1]
    value = _value(word, place.shape, files)
    if not place.appends:
        if name in tree:
            raise _given_twice(word.key)
        tree[name] = value
    elif isinstance(elements := tree.setdefault(name, []), list):
        elements.append(value)
    else:
        raise _given_twice(word.key)


def _given_twice(key: str) -> BadRequest:
    name = one_line(key.removesuffix("[]"), 60)
    return BadRequest(f"argument '{name}' is given twice", reason=f"for a list write {name}[]=VALUE for each element")


def _place(key: str, shape: Shape | None) -> Place:
    """Follow a key; a property that has the very name goes before a path with dots."""
    names: list[str] = []
    rest = key
    while True:
        name = _first_name(rest, shape)
        is_known = shape is not None and shape.has(name)
        appends = name == rest and name.endswith("[]") and not is_known
        names.append(name.removesuffix("[]") if appends else name)
        if not names[-1] or ("[]" in names[-1] and not is_known):
            raise BadRequest(f"the key '{one_line(key, 60)}' cannot be read", reason="a.b is a member, a[] an element")
        shape = shape.member(names[-1]) if shape else None
        if name == rest:
            return Place(names, _element(shape, key) if appends else shape, appends)
        if len(names) == MAX_KEY_PARTS:
            raise BadRequest(f"the key '{one_line(key, 60)}' has more than {MAX_KEY_PARTS} parts")
        rest = rest[len(name) + 1 :]


def _first_name(key: str, shape: Shape | None) -> str:
    """Return the longest known name that the key begins with, else what is before its first dot."""
    end = len(key)
    while shape is not None and end > 0:
        if shape.has(key[:end]) or (end == len(key) and shape.has(key.removesuffix("[]"))):
            return key[:end]
        end = key.rfind(".", 0, end)
    return key.partition(".")[0]


def _element(shape: Shape | None, key: str) -> Shape | None:
    """Return the shape of an element that `key` appends."""
    if shape and shape.types and "array" not in shape.types:
        name = one_line(key.removesuffix("[]"), 60)
        raise BadRequest(f"argument '{name}' is no array", reason=f"write {name}=VALUE")
    return shape.items if shape else None


def _value(word: Word, shape: Shape | None, files: Files) -> Tree:
    text, name = word.text, None
    if text.startswith("@@"):
        text = text[1:]
    elif text.startswith("@"):
        name = text[1:]
    what = f"argument '{one_line(word.key, 60)}'"
    if word.is_json:
        source = what if name is None else _file_name(name)
        return json_value(text if name is None else _text_of(name, files), source, _as_text(word))
    types = shape.types if shape else ()
    if name is None:
        encoded_text(text, what)
        return typed(text, types, word.key)
    if shape and shape.text("contentEncoding") == "base64" and ("string" in types or not types):
        return _base64(_file(name, files))
    # The text of a file is text, whatever it looks like, unless the schema wants something else.
    return typed(_text_of(name, files), types or ("string",), word.key)


def _as_text(word: Word) -> str | None:
    """Return the hint for somebody who wrote text behind `:=`."""
    if not word.text or word.text[0] in '{["@':
        return None
    return f"for text write {one_line(word.key, 60)}={one_line(word.text, SHOWN_CHARACTERS)}"


def _file(name: str, files: Files) -> str | bytes:
    if not name:
        raise BadRequest("@ needs the name of a file, or - for the standard input", hint="for an @ itself write @@")
    if name not in files:
        raise BadRequest(f"{_file_name(name)} did not come with the request")
    return files[name]


def _text_of(name: str, files: Files) -> str:
    content = _file(name, files)
    try:
        text = content if isinstance(content, str) else content.decode()
        text.encode()
    except UnicodeError:
        raise BadRequest(f"{_file_name(name)} is no text in UTF-8") from None
    return text


def _file_name(name: str) -> str:
    return "the standard input" if name == "-" else f"the file '{one_line(name, 200)}'"


def _base64(content: str | bytes) -> str:
    from base64 import b64encode

    return b64encode(content.encode("utf-8", "replace") if isinstance(content, str) else content).decode()
