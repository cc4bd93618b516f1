"""What a tool's schema certainly refuses: unknown and missing names, and values that are not in a list.

Found before the call, so that the answer can name what was meant. No more than that is compared: the
schema may come from a cache, and the server has the last word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from mcpd.downstream.cli.schema import same
from mcpd.downstream.cli.text import listed, near, one_line
from mcpd.downstream.cli.values import SHOWN_CHARACTERS, why
from mcpd.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpd.downstream.cli.schema import Shape
    from mcpd.downstream.cli.values import Tree

# Of names and of allowed values, in an error.
MAX_LISTED = 15
NAME_CHARACTERS = 60


def check(tree: Mapping[str, Tree], shape: Shape, *, tool: str, prefix: str = "") -> None:
    """Compare an object of arguments, and the objects in it that were put together from words.

    Args:
        tree: the arguments; what came as JSON in one piece is looked into for a listed value only.
        shape: what the schema says about the object.
        tool: its name, for errors.
        prefix: the path to the object, with a dot at its end.

    Raises:
        BadRequest: The server would refuse this; `reason` lists what there is.
    """
    unknown = [name for name in tree if not shape.has(name)]
    missing = [name for name in shape.required if name not in tree]
    if unknown and shape.is_closed:
        raise _unknown(unknown, missing, shape, prefix, tool)
    if missing:
        odd = f"; '{_shown(prefix + unknown[0])}' is none of its arguments" if unknown and shape.names else ""
        raise BadRequest(f"{_shown(tool)} needs {_quoted(missing, prefix)}{odd}", reason=_takes(shape, prefix))
    for name, value in tree.items():
        if (inner := shape.member(name)) is not None:
            _check_value(value, inner, tool, prefix + name)


def _check_value(value: Tree, shape: Shape, tool: str, key: str) -> None:
    match value:
        case dict():
            check(value, shape, tool=tool, prefix=f"{key}.")
        case list():
            if (items := shape.items) is not None and (choices := items.choices) is not None:
                for element in value:
                    _check_choice(element, choices, key)
        case _:
            if (choices := shape.choices) is not None:
                _check_choice(value, choices, key)


def _check_choice(value: Tree, choices: list[object], key: str) -> None:
    try:
        decoded = msgspec.json.decode(value) if isinstance(value, Raw) else value
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # A number that does not fit into ours can still be right.
        return
    # Many schemas name null as a type and forget it among the values.
    if decoded is None or any(same(decoded, choice) for choice in choices):
        return
    texts = [choice for choice in choices if isinstance(choice, str)]
    guess = near(decoded, texts) if isinstance(decoded, str) else None
    raise BadRequest(
        f"argument '{_shown(key)}' must be {listed(_choice_texts(choices), 'or')}, not {_json(decoded)}",
        **why(f"did you mean {_shown(guess)}?" if guess else None),
    )


def _choice_texts(choices: list[object]) -> list[str]:
    shown = [_json(choice) for choice in choices[:MAX_LISTED]]
    return [*shown, f"{len(choices) - MAX_LISTED} more"] if len(choices) > MAX_LISTED else shown


def _unknown(names: list[str], missing: list[str], shape: Shape, prefix: str, tool: str) -> BadRequest:
    name = names[0]
    if (bare := name.strip()) != name and bare in shape.names:
        return BadRequest(f"write {_shown(prefix + bare)}=VALUE, without blanks around the =")
    guess = near(name, shape.names)
    others = [other for other in missing if other != guess]
    needs = f", and needs {_quoted(others, prefix)}" if others else ""
    meant = f"; did you mean '{_shown(prefix + guess)}'?" if guess else ""
    said = f"{_shown(tool)} has no argument {_quoted(names, prefix, 'or')}{needs}{meant}"
    return BadRequest(said, reason=_takes(shape, prefix))


def _quoted(names: list[str], prefix: str, word: str = "and") -> str:
    return listed([f"'{_shown(prefix + name)}'" for name in names[:MAX_LISTED]], word)


def _takes(shape: Shape, prefix: str) -> str:
    required = shape.required
    optional = [name for name in shape.names if name not in required]
    parts = [_names(required, prefix)] if required else []
    if optional:
        parts.append(("optionally " if required else "") + _names(optional, prefix))
    return f"it takes {' and '.join(parts)}" if parts else "it takes no arguments"


def _names(names: Iterable[str], prefix: str) -> str:
    shown = [_shown(prefix + name) for name in names]
    if len(shown) > MAX_LISTED:
        shown[MAX_LISTED:] = [f"{len(shown) - MAX_LISTED} more"]
    return ", ".join(shown)


def _shown(name: str) -> str:
    return one_line(name, NAME_CHARACTERS)


def _json(value: object) -> str:
    return one_line(msgspec.json.encode(value).decode(), SHOWN_CHARACTERS)
