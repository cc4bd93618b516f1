"""The clients of a run: so many at any time, a new one with a new number for each that was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from tests.chaos.ground import HERE, Ground

# Half of the places speak over the wire, some use the library, some the command.
PLACES = ("wire", "wire", "library", "wire", "command", "wire", "library", "wire")
END_SECONDS = 60.0


class Crowd:
    """Keeps the places taken.

    Attributes:
        started: how many clients there have been; the last one's serial number.
        failures: those that ended by themselves, or did not when told to.
    """

    def __init__(self, ground: Ground, count: int, seed: int, mutant: str) -> None:
        self._ground, self._count, self._seed, self._mutant = ground, count, seed, mutant
        self._clients: dict[int, subprocess.Popen[bytes]] = {}
        self.started = 0
        self.failures: list[str] = []

    def fill(self) -> None:
        """Start clients where there is nobody."""
        for place in range(self._count):
            client = self._clients.get(place)
            if client is not None and client.poll() is None:
                continue
            if client is not None and client.returncode != -signal.SIGKILL:
                self.failures.append(f"a client of place {place} ended with {client.returncode}")
            self._clients[place] = self._start(PLACES[place % len(PLACES)])

    def _start(self, kind: str) -> subprocess.Popen[bytes]:
        self.started += 1
        ground = self._ground
        words = [ground.path, str(self.started), kind, str(self._seed), ",".join(ground.names), self._mutant]
        with open(f"{ground.path}/clients.log", "ab") as log:
            return ground.spawn(
                sys.executable, str(HERE / "client.py"), *words, *ground.command, stderr=log, start_new_session=True
            )

    def end(self) -> None:
        """Tell all that it is enough, and wait for them."""
        flag = f"{self._ground.path}/enough"
        open(flag, "x").close()
        end = time.monotonic() + END_SECONDS
        for place, client in self._clients.items():
            try:
                status = client.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.failures.append(f"the client of place {place} does not come to an end")
                client.kill()
                status = client.wait()
            if status not in (0, -signal.SIGKILL):
                self.failures.append(f"the client of place {place} ended with {status}")
        self._clients.clear()
        self._ground.remove(flag)

    def kill(self) -> None:
        """End all of them at once."""
        for client in self._clients.values():
            client.kill()
            client.wait()
