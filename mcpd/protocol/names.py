"""The names and uris under which the things of several servers are published as those of one.

Names are made from the whole set of what there is, and found again by a map: nothing is ever split, since
`a-b` with `c` and `a` with `b-c` look the same once they are joined. The same set gives the same names,
whatever its order.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from typing import NamedTuple

SEPARATOR = "-"
# What hosts put in front of a name comes out of the 64 characters that models are given.
SHORT_CHARACTERS, MCP_CHARACTERS, SEPARATOR_CHARACTERS = 50, 64, 8
HASH_CHARACTERS = 8

_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_SIGNS = re.compile(r"[^A-Za-z0-9]+")
_UNDERSCORES = re.compile(r"__+")
_OF_SERVER = re.compile(r"mcpd\+([A-Za-z0-9][A-Za-z0-9_-]*):")
_EXPRESSION = re.compile(r"\{[^{}]*\}")


class Pair(NamedTuple):
    """Something of a server, by the name that it has there."""

    server: str
    name: str


def separator(wanted: str | None) -> str:
    """Return what stands between server and name, of characters that names may have."""
    return _OTHER.sub("_", wanted or SEPARATOR)[:SEPARATOR_CHARACTERS]


def short(pairs: Iterable[Pair], between: str = SEPARATOR) -> dict[Pair, str]:
    """Return names like `github-search_code`, of at most 50 characters.

    A name that repeats its server's (`github_search` of `github`) loses that if it is still the only one.
    """

    def joined(server: str, name: str) -> str:
        server, name = clean(server), clean(name)
        if "__" in between:
            return f"{server}{between}{name.lstrip('_')}".lstrip("_")
        return _UNDERSCORES.sub("_", f"{server}{between}{name}").lstrip("_")

    whole = {pair: joined(*pair) for pair in dict.fromkeys(pairs)}
    brief = {pair: joined(pair.server, rest) for pair in whole if (rest := _unrepeated(*pair))}
    taken = Counter([*whole.values(), *brief.values()])
    chosen = {pair: brief[pair] if pair in brief and taken[brief[pair]] == 1 else name for pair, name in whole.items()}
    return _unique(chosen, SHORT_CHARACTERS, "-" if "-" in between else "_")


def mcp(pairs: Iterable[Pair], kind: str = "mcp") -> dict[Pair, str]:
    """Return names like `mcp__github__search_code`, of at most 64 characters; `kind` is what they begin with."""
    joined = {pair: _OTHER.sub("_", f"{kind}__{pair.server}__{pair.name}") for pair in pairs}
    return _unique(joined, MCP_CHARACTERS, "_")


def aliases(pair: Pair) -> set[str]:
    """Return the names that models call something by, whatever it is published as; others may have the same ones."""
    server, name = pair
    written = {f"{server}{sign}{name}" for sign in ("__", ".", "-", "_", "/")} | {f"mcp__{server}__{name}"}
    return written | {_OTHER.sub("_", one) for one in written} | {_UNDERSCORES.sub("_", one) for one in written}


def letters(text: str) -> str:
    """Return the letters and digits of a text, which all aliases of something share but for `mcp` in front."""
    return _SIGNS.sub("", text)


def clean(text: str) -> str:
    """Return a text of the characters that names may have."""
    return _UNDERSCORES.sub("_", _OTHER.sub("_", text))


def _unrepeated(server: str, name: str) -> str:
    """Return a name without the server's in front of it; nothing where it is not, or where nothing is behind it."""
    if not name.lower().startswith(server.lower()):
        return ""
    rest = name[len(server) :]
    # `gitlab` is no `lab` of `git`.
    return rest.lstrip("_-./:") if rest[:1] in ("_", "-", ".", "/", ":") else ""


def _unique(wanted: dict[Pair, str], most: int, joint: str) -> dict[Pair, str]:
    """Return the names that are wanted; those that are too long, or not the only ones, end in a hash instead."""
    names, salts = dict(wanted), dict[Pair, int]()
    while doomed := _doomed(names, most, salts):
        for pair in doomed:
            salt = salts[pair] = salts.get(pair, -1) + 1
            raw = (*pair, str(salt)) if salt else pair
            digest = hashlib.sha256("\0".join(raw).encode(errors="surrogatepass")).hexdigest()
            room = most - HASH_CHARACTERS - len(joint)
            names[pair] = f"{wanted[pair][:room].rstrip('_-')}{joint}{digest[:HASH_CHARACTERS]}"
    return names


def _doomed(names: dict[Pair, str], most: int, salts: Container[Pair]) -> list[Pair]:
    """Return what cannot have the name it has; of several that end in the same hash one keeps it."""
    sharing = defaultdict[str, list[Pair]](list)
    for pair, name in names.items():
        sharing[name].append(pair)
    doomed = [pair for name, (pair, *others) in sharing.items() if len(name) > most and not others]
    for pairs in sharing.values():
        if len(pairs) > 1:
            doomed += [pair for place, pair in enumerate(sorted(pairs)) if place or pair not in salts]
    return doomed


# -- uris ----------------------------------------------------------------------------------------


def uris(pairs: Iterable[Pair]) -> dict[Pair, str]:
    """Return the uris of resources, or of templates, in the order of their servers.

    They are published as they are, except that of several servers with the same one only the first has it so.
    """
    taken, found = set[str](), dict[Pair, str]()
    for pair in pairs:
        name = of_server(*pair) if pair.name in taken or whose(pair.name) else pair.name
        taken.add(pair.name)
        found[pair] = name
    return found


def of_server(server: str, uri: str) -> str:
    """Return the uri that leads to a server's resource whatever others have."""
    return f"mcpd+{server}:{uri}"


def whose(uri: str) -> Pair | None:
    """Return the server that a uri names, and the uri that it has there; None if it names none."""
    found = _OF_SERVER.match(uri)
    return Pair(found[1], uri[found.end() :]) if found else None


def fits(template: str, uri: str) -> int | None:
    """Return how many characters of a uri are a template's own; None if it cannot have been made of that.

    RFC 6570, by its literal parts alone, each at the first place it can have: that takes no longer than one look
    at the uri, whatever a server has for a template.
    """
    first, *rest = _EXPRESSION.split(template)
    if not rest:
        return len(uri) if first == uri else None
    *middle, last = rest
    if not uri.startswith(first) or not uri.endswith(last):
        return None
    start, end = len(first), len(uri) - len(last)
    for literal in middle:
        if (found := uri.find(literal, start, end)) < 0:
            return None
        start = found + len(literal)
    return sum(map(len, (first, *rest))) if start <= end else None
