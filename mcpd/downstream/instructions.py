"""What the model is told about several servers that it sees as one; hosts cut that at 2 KB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Of UTF-8; Claude Code cuts at 2048 characters.
MOST_BYTES = 2000
# Of these, for the names of the servers alone.
NAMES_BYTES = 700
# Less than this of what a server says of itself says nothing: rather none of some.
LEAST_BYTES = 160


def written(opening: str, servers: Sequence[str], said: Mapping[str, str]) -> str:
    """Return an opening, the names of the servers, and what they say of themselves, as far as there is room.

    Args:
        opening: how to use them; the names of the servers follow it.
        servers: their names.
        said: their own instructions, by name.
    """
    text = f"{opening} {_listed(servers)}" if servers else f"{opening} none."
    room = MOST_BYTES - _bytes(text)
    quoted = [name for name in servers if said.get(name, "").strip()][: room // LEAST_BYTES]
    texts = {name: " ".join(said[name].split()) for name in quoted}
    # The short ones first: what they leave is there for the longer ones.
    share: dict[str, int] = {}
    for place, name in enumerate(sorted(texts, key=lambda name: _bytes(texts[name]))):
        share[name] = min(_bytes(texts[name]), room // (len(texts) - place) - _bytes(name) - 4)
        room -= share[name] + _bytes(name) + 4
    return text + "".join(f"\n\n{name}: {_cut(texts[name], share[name])}" for name in texts if share[name] > 0)


def _listed(servers: Sequence[str]) -> str:
    shown, room = list[str](), NAMES_BYTES
    for name in servers:
        room -= len(name) + 2
        if room < 0:
            return f"{', '.join(shown)} and {len(servers) - len(shown)} more."
        shown.append(name)
    return f"{', '.join(shown)}."


def _bytes(text: str) -> int:
    return len(text.encode(errors="replace"))


def _cut(text: str, most: int) -> str:
    if _bytes(text) <= most:
        return text
    return f"{text.encode(errors='replace')[: max(0, most - 3)].decode(errors='ignore').rstrip()}…"
