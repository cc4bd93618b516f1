"""Looks at the processes while a run goes on: one daemon only, nothing of a dead one, and how much it takes."""

from __future__ import annotations

import time

from tests.chaos import processes
from tests.chaos.faults import guardians, of_role
from tests.chaos.ground import Ground
from tests.chaos.judge import Violation

# A guardian ends what is below it in a moment; this is for a machine that does ten things at once.
ORPHAN_SECONDS = 5.0
EVERY_SECONDS = 0.5
# Who replaces its socket has two of them for a moment.
SECOND_LOOK_SECONDS = 0.1


class Watch:
    """What has been seen.

    Attributes:
        daemons: all that have ever been there.
        most: the largest figures of any daemon: rss_bytes, fds, processes.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.daemons: set[int] = set()
        self.most = {"rss_bytes": 0, "fds": 0, "processes": 0}
        self.violations: list[Violation] = []
        self._orphans: dict[tuple[int, int], float] = {}
        self._next_at = 0.0

    def look(self) -> None:
        """Look, unless that was done just now."""
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + EVERY_SECONDS
        found = self._ground.scan()
        for one in of_role(found, "daemon"):
            self.daemons.add(one.pid)
            self.most["rss_bytes"] = max(self.most["rss_bytes"], processes.rss_bytes(one.pid))
            self.most["fds"] = max(self.most["fds"], processes.count_fds(one.pid))
        self.most["processes"] = max(self.most["processes"], len(found))
        self._look_for_second_daemon()
        self._look_for_orphans(found, now)

    def _look_for_second_daemon(self) -> None:
        path = self._ground.socket_path
        if len(first := processes.listeners(path)) > 1:
            time.sleep(SECOND_LOOK_SECONDS)
            if len(both := first & processes.listeners(path)) > 1:
                self.violations.append(Violation("daemons", f"{len(both)} sockets listen at {path}"))

    def _look_for_orphans(self, found: list[processes.Process], now: float) -> None:
        """Time what belongs to a daemon that is dead while another one has a guardian already."""
        living = {one.instance for one in guardians(found)}
        marked = [one for one in found if one.mark and living and one.instance not in living]
        self._orphans = {(one.pid, one.mark): self._orphans.get((one.pid, one.mark), now) for one in marked}
        for one in marked:
            if now - self._orphans[one.pid, one.mark] > ORPHAN_SECONDS:
                self.violations.append(Violation("orphan", str(one)))
                self._orphans[one.pid, one.mark] = now
