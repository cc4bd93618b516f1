"""Hosts made with the official SDKs, each with a bridge of its own to the servers of one daemon."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.integration.wire import text_of
from tests.integration.world import until
from tests.real.eras import LEGACY, MODERN, Asked, Eras

if TYPE_CHECKING:
    from tests.integration.world import World

HERE = Path(__file__).parent
NEWEST = LEGACY[-1]
CAN_ALL = ("elicitation", "sampling", "roots")
PATIENCE_SECONDS = 20.0
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


class Kind(NamedTuple):
    """A host: the SDK that it is made with, and the revision that it offers."""

    sdk: str
    revision: str
    generation: int = 2

    @property
    def is_modern(self) -> bool:
        """Whether it says with every request what it speaks."""
        return self.revision == MODERN


# Every SDK in every era that it has.
KINDS = {
    "python-legacy": Kind("python", NEWEST),
    "python-modern": Kind("python", MODERN),
    "typescript-legacy": Kind("typescript", NEWEST),
    "typescript-modern": Kind("typescript", MODERN),
    "typescript-first": Kind("typescript", NEWEST, generation=1),
}
OLDER = {f"python-{date}": Kind("python", date) for date in LEGACY[:-1]}


class SdkHost(Asked):
    """One host and what it hears; in the words of MCP, whatever the SDK calls things.

    Attributes:
        kind: what it is made with.
        agreed: what the server said of itself, and the revision that both speak.
    """

    def __init__(self, path: str, kind: Kind, command: Sequence[str], **more: object) -> None:
        super().__init__(path)
        self.sock.settimeout(PATIENCE_SECONDS)
        self.kind = kind
        about = {"command": command, "revision": kind.revision, "generation": kind.generation, **more}
        self.agreed: dict[str, Any] = self.ask("connect", about)

    def call(self, tool: str, **arguments: object) -> str:
        """Return the text that a tool gives back."""
        return text_of(self.ask("tools/call", {"name": tool, "arguments": arguments}))

    def begin(self, tool: str, arguments: object = None, **meta: object) -> int:
        """Call a tool; return the number of the call."""
        number: int = self.send("tools/call", {"name": tool, "arguments": arguments or {}, "_meta": meta})
        return number

    def question(self, tool: str, method: str, arguments: object = None) -> tuple[int, dict[str, Any]]:
        """Call a tool that asks; return the number of the call, and the question."""
        call = self.begin(tool, arguments)
        return call, self.expect(method, before=call)

    def cancel(self, number: int) -> None:
        """Have the host give a request up."""
        self.notify("notifications/cancelled", {"requestId": number})

    def settled(self) -> list[dict[str, Any]]:
        """Return what has come and nobody has looked at, once all before now has come.

        But for lists that have changed: other hosts change them at any time.
        """
        assert self.call("echo", text="settled") == "settled"
        return [note for note in self.notes if not note["method"].endswith("list_changed")]

    def names(self, kind: str, method: str, key: str) -> list[str]:
        """Return the names in a list."""
        member = "resourceTemplates" if kind == "templates" else kind
        return [item[key] for item in self.ask(method)[member]]


@dataclass
class Bridged(Eras):
    """The daemon with its servers, and hosts of every kind.

    Attributes:
        sockets: where the program with the hosts of an SDK listens.
    """

    sockets: dict[str, str] = field(default_factory=dict)
    _kept: dict[tuple[Kind, str], SdkHost] = field(default_factory=dict)

    def command(self, *argv: str) -> list[str]:
        """Return how a host starts a bridge."""
        return [sys.executable, "-m", "mcpd_client", "bridge", *argv]

    @property
    def env(self) -> dict[str, str]:
        """What a bridge has to be told; the SDKs hide all else from it."""
        return {key: self.world.env[key] for key in ("HOME", "XDG_RUNTIME_DIR", "PYTHONPATH")}

    def start(self, kind: Kind, *argv: str, can: Sequence[str] = CAN_ALL, **more: Any) -> SdkHost:
        """Return a new host that has started `mcpd bridge ARGV…`."""
        about = {"env": self.env, "cwd": self.project, **more}
        return SdkHost(self.sockets[kind.sdk], kind, self.command(*argv), can=can, **about)

    def kept(self, kind: Kind, server: str) -> SdkHost:
        """Return the host of that kind that stays, with nothing heard yet."""
        if (kind, server) not in self._kept:
            self._kept[kind, server] = self.start(kind, server)
        host = self._kept[kind, server]
        host.notes.clear()
        return host

    def close(self) -> None:
        """End the hosts that have stayed."""
        for host in self._kept.values():
            host.close()
        self._kept.clear()


@contextlib.contextmanager
def hosts(world: World, python: str, node_modules: Path) -> Iterator[dict[str, str]]:
    """Run the programs that the hosts are in; give the socket of each."""
    # Node looks for packages beside the program.
    script = shutil.copy(HERE / "sdk_host.mjs", node_modules.parent)
    commands = {"python": [python, str(HERE / "sdk_host.py")], "typescript": ["node", script]}
    sockets = {name: f"{world.path}/{name}.sock" for name in commands}
    with contextlib.ExitStack() as stack:
        for name, command in commands.items():
            child = stack.enter_context(subprocess.Popen([*command, sockets[name]], env=world.env, cwd=world.path))
            stack.callback(child.terminate)
            until(lambda name=name: Path(sockets[name]).exists(), seen=child.poll)
        yield sockets


def plain(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without what a revision or the socket adds to it."""
    added = ("resultType", "ttlMs", "cacheScope")
    meta = {
        key: value
        for key, value in result.get("_meta", {}).items()
        if not key.startswith(("mcpd/", "io.modelcontextprotocol/"))
    }
    bare = {key: value for key, value in result.items() if key not in (*added, "_meta")}
    # What is the same when it is not there.
    if bare.get("isError") is False:
        del bare["isError"]
    return json.loads(json.dumps({**bare, **({"_meta": meta} if meta else {})}))  # type: ignore[no-any-return]
