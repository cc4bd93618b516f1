"""The last acts of a run, one after the other and without any load: ends from which nothing may be left.

In the chapters before, the next daemon sweeps what the last one has left; here nobody comes to help.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Iterator

from tests.chaos.faults import guardians, of_role
from tests.chaos.ground import EMPTY_SECONDS, Ground
from tests.chaos.judge import Violation
from tests.chaos.processes import Process, kill_together, send

SERVERS = ("server", "grandchild")


class Acts:
    """Ends things, and finds what is left; what was found once is not found again."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._found: set[int] = set()

    def play(self) -> Iterator[Violation]:
        """End guardian and daemon in every way, each with all servers running; the run is over then."""
        for act in (self._kill_guardian, self._kill_both, self._kill_daemon, self._down):
            yield from self._start()
            yield from act()

    def stop_servers(self) -> Iterator[Violation]:
        """Stop all servers."""
        for reply in self._ask_all("mcpd/stop"):
            if "error" in reply:
                yield Violation("stop", str(reply))
        yield from self._none_left("the servers were stopped", roles=SERVERS)

    def _start(self) -> Iterator[Violation]:
        """Have a daemon and all servers; those that crash have had their chance."""
        said = self._ground.mcpd("up", "-q")
        if said.returncode:
            yield Violation("up", str(said))
            return
        for name, reply in zip(self._ground.names, self._ask_all("mcpd/start"), strict=True):
            if "error" in reply and not name.startswith("crashing"):
                yield Violation("not_back", f"{name}: {reply}")

    def _kill_guardian(self) -> Iterator[Violation]:
        """Kill the guardian: its servers end, the daemon stays."""
        found = self._ground.scan()
        for one in guardians(found):
            send(one, signal.SIGKILL)
        yield from self._none_left("the guardian was killed", roles=SERVERS, among=found)

    def _kill_both(self) -> Iterator[Violation]:
        """Kill daemon and guardian at once: the next daemon ends what is left."""
        found = self._ground.scan()
        kill_together([*of_role(found, "daemon"), *guardians(found)])
        self._ground.mcpd("up", "-q")
        yield from self._none_left("daemon and guardian were killed and a new daemon came", among=found)

    def _kill_daemon(self) -> Iterator[Violation]:
        """Kill the daemon: everything ends, and nobody comes after it."""
        for one in of_role(self._ground.scan(), "daemon"):
            send(one, signal.SIGKILL)
        yield from self._none_left("the daemon was killed")

    def _down(self) -> Iterator[Violation]:
        """End the run as a user does."""
        said = self._ground.mcpd("down")
        if said.returncode:
            yield Violation("down", str(said))
        yield from self._none_left("down")

    def _ask_all(self, method: str) -> list[dict[str, object]]:
        return self._ground.ask(*((method, {"server": name}) for name in self._ground.names))

    def _none_left(
        self, after: str, *, roles: Collection[str] = (), among: Collection[Process] | None = None
    ) -> Iterator[Violation]:
        """Wait until there is nobody, of these roles and among those who were there before; tell who stays."""
        end = time.monotonic() + EMPTY_SECONDS
        before = None if among is None else {one.pid for one in among}
        while left := [
            one
            for one in self._ground.scan()
            if one.pid not in self._found
            and (not roles or one.role in roles)
            and (before is None or one.pid in before)
        ]:
            if time.monotonic() > end:
                self._found |= {one.pid for one in left}
                for one in left:
                    yield Violation("left_over", f"after {after}: {one}")
                return
            time.sleep(0.05)
