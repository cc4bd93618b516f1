"""How a tool is called: its signature, its arguments one by one, and an example command line.

A server chooses how long and how deep its schema is; what is shown of it is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from mcpd.downstream.cli.text import ELLIPSIS, one_line, width
from mcpd.downstream.cli.values import fits, typed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpd.downstream.cli.schema import Shape

MAX_ROWS = 200
MAX_DEPTH = 3
# In a signature, of arguments and of values.
MAX_PARAMETERS = 30
MAX_CHOICES = 8
VALUE_CHARACTERS = 60
# In an example: a longer text is a placeholder there.
EXAMPLE_BYTES = 200
NAME_CHARACTERS = 64
# One long description may be that of every argument, by reference.
DESCRIPTION_CHARACTERS = 2000


class Row(Struct, frozen=True):
    """What there is to say about one argument.

    Args:
        name: the key as `mcpd call` takes it: members of objects have a path with dots.
        type: its type, in short.
        marks: `required`, the default.
        description: in the server's words, cleaned by whoever shows it.
    """

    name: str
    type: str
    marks: tuple[str, ...] = ()
    description: str = ""


def argument_rows(shape: Shape | None) -> list[Row]:
    """Return the arguments in their order, members of objects below them; one over `MAX_ROWS` if there are more."""
    rows: list[Row] = []
    for row in _rows(shape, "", 0):
        rows.append(row)
        if len(rows) > MAX_ROWS:
            break
    return rows


def _rows(shape: Shape | None, prefix: str, depth: int) -> Iterator[Row]:
    if shape is None or depth == MAX_DEPTH:
        return
    required = frozenset(shape.required)
    for name in shape.names:
        inner = shape.member(name)
        if inner is not None:
            key = one_line(prefix + name, NAME_CHARACTERS)
            yield Row(key, type_text(inner), _marks(inner, name in required), _description(inner))
            yield from _rows(inner, f"{prefix}{name}.", depth + 1)


def _description(shape: Shape) -> str:
    text = shape.text("description")
    return text if len(text) <= DESCRIPTION_CHARACTERS else text[: DESCRIPTION_CHARACTERS - 1] + ELLIPSIS


def _marks(shape: Shape, required: bool) -> tuple[str, ...]:
    marks = ["required"] if required else []
    if shape.keyword("default") is not None:
        marks.append(f"default {_json(shape.keyword('default'))}")
    if shape.text("format"):
        marks.append(f"format {one_line(shape.text('format'), VALUE_CHARACTERS)}")
    return tuple(marks)


def type_text(shape: Shape | None, depth: int = 0) -> str:
    """Return the type in short: `string`, `integer[]`, `"open" | "closed"`, `any`."""
    if shape is None or depth == MAX_DEPTH:
        return "any"
    if choices := shape.choices:
        shown = [_json(choice) for choice in choices[:MAX_CHOICES]]
        return " | ".join([*shown, "…"] if len(choices) > MAX_CHOICES else shown)
    names = [_element_text(shape, depth) if name == "array" else name for name in shape.types]
    return " | ".join(names) or "any"


def _element_text(shape: Shape, depth: int) -> str:
    element = type_text(shape.items, depth + 1)
    return f"({element})[]" if " | " in element else f"{element}[]"


def signature(name: str, shape: Shape | None, result: Shape | None, columns: int | None) -> list[str]:
    """Return `name(key: type, other?: type)`, broken into lines where it is too long for one."""
    parameters = list(_parameters(shape))
    returned = f" -> {type_text(result)}" if result is not None else ""
    line = f"{name}({', '.join(parameters)}){returned}"
    if columns is None or width(line) <= columns or not parameters:
        return [line]
    return [f"{name}(", *(f"    {parameter}," for parameter in parameters), f"){returned}"]


def _parameters(shape: Shape | None) -> Iterator[str]:
    if shape is None:
        return
    required = frozenset(shape.required)
    for number, name in enumerate(shape.names):
        if number == MAX_PARAMETERS:
            yield "…"
            return
        mark = "" if name in required else "?"
        yield f"{one_line(name, NAME_CHARACTERS)}{mark}: {type_text(shape.member(name))}"


# -- an example --------------------------------------------------------------------------------------


def example(server: str, tool: str, shape: Shape | None) -> str:
    """Return a command line with all that is required, or with one argument if nothing is.

    It is quoted, and can be pasted whatever the names are; empty where they have what no line can show.
    """
    from shlex import quote

    words = [server, tool, *(_example_words(shape) if shape is not None else [])]
    if not all(word.isprintable() for word in words):
        return ""
    # A name with a dash in front would be an option.
    dashes = ["--"] if any(word.startswith("-") for word in words) else []
    return " ".join(["mcpd call", *dashes, *(quote(word) for word in words)])


def _example_words(shape: Shape) -> list[str]:
    words: list[str] = []
    for name in (shape.required or shape.names[:1])[:MAX_PARAMETERS]:
        words += _words(name, shape.member(name), 1)
    return words


def _words(key: str, shape: Shape | None, depth: int) -> list[str]:
    """Return the words that give an argument some value that its schema allows."""
    if "=" in key or not key or key.endswith((":", ".")) or key.startswith(("{", "[", '"')):
        return []
    types = shape.types if shape is not None else ()
    value = _example_value(shape)
    if shape is not None and value is None and types == ("object",) and shape.required and depth < MAX_DEPTH:
        return [
            word
            for name in shape.required[:MAX_PARAMETERS]
            for word in _words(f"{key}.{name}", shape.member(name), depth + 1)
        ]
    if shape is not None and value is None and types == ("array",):
        return [f"{key}[]{_assigned(shape.items)}"]
    return [key + _assigned(shape)]


def _assigned(shape: Shape | None) -> str:
    """Return `=text` or `:=json`, whichever gives a value that this schema allows."""
    types = shape.types if shape is not None else ()
    value = _example_value(shape)
    if value is None:
        value = _placeholder(shape)
    if isinstance(value, str) and ("string" in types or not (types or _looks_like_json(value))):
        return f"=@{value}" if value.startswith("@") else f"={value}"
    json = msgspec.json.encode(value)
    if "string" not in types and fits(msgspec.Raw(json), types):
        return f"={json.decode()}"
    return f":={json.decode()}"


def _looks_like_json(text: str) -> bool:
    return typed(text, (), "") is not text


def _example_value(shape: Shape | None) -> object:
    """Return a value that the schema itself names, None if there is none."""
    if shape is None:
        return None
    examples = shape.keyword("examples")
    candidates = [
        shape.keyword("default"),
        *(examples[:1] if isinstance(examples, list) else []),
        *(shape.choices or [])[:1],
    ]
    types = shape.types
    for value in candidates:
        if value is None or len(json := msgspec.json.encode(value)) > EXAMPLE_BYTES:
            continue
        if (not types or fits(msgspec.Raw(json), types)) and (not shape.choices or value in shape.choices):
            return value
    return None


def _placeholder(shape: Shape | None) -> object:
    types = shape.types if shape is not None else ()
    if not types or "string" in types:
        return "TEXT"
    least = shape.keyword("minimum") if shape is not None else None
    number = least if isinstance(least, int | float) and not isinstance(least, bool) else 1
    match types[0]:
        case "integer":
            return int(number)
        case "number":
            return number
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return {}
    return None


def _json(value: Any) -> str:
    return one_line(msgspec.json.encode(value).decode(), VALUE_CHARACTERS)
