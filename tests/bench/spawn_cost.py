"""What a start through the guardian costs beside a bare `Popen`: prints pairs of milliseconds as JSON.

A program of its own, since it is the daemon's code that is measured, in the daemon's interpreter.
"""

import json
import subprocess
import sys
import time

import trio

from mcpd.config.expand import Launch
from mcpd.mover import Mover
from mcpd.timers import Timers
from mcpd.upstream.guard import Guard
from mcpd.upstream.process import Process

PROGRAM, ENV = ("/bin/cat",), {"PATH": "/usr/bin:/bin"}
SCOPE, INSTANCE = 0xBE7C4, 1


class Silent:
    """A log that nobody reads."""

    def warning(self, event: str, **facts: object) -> None:
        """Take note of nothing."""


async def by_guardian(guard: Guard) -> float:
    """Return the milliseconds until a process runs and its pipes and pidfd are at hand."""
    begin = time.perf_counter()
    process = await Process.start(guard, Launch(argv=PROGRAM, env=ENV, cwd="/", secrets=frozenset()))
    taken = time.perf_counter() - begin
    await process.end(0, 0)
    return taken * 1e3


def by_popen() -> float:
    """Return the milliseconds of the standard library's way, which also returns after the `exec`."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    begin = time.perf_counter()
    child = subprocess.Popen(PROGRAM, env=ENV, cwd="/", start_new_session=True, **pipes)
    taken = time.perf_counter() - begin
    child.kill()
    child.communicate()
    return taken * 1e3


async def main(shots: int) -> None:
    """Take the pairs in turn; the first ones warm up and are not counted."""
    mover = Mover()
    timers = Timers(mover.batch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mover.run)
        nursery.start_soon(timers.run)
        guard = Guard(mover, timers, Silent(), SCOPE, INSTANCE)
        pairs = [(await by_guardian(guard), by_popen()) for _ in range(shots + 5)]
        await guard.aclose()
        nursery.cancel_scope.cancel()
    print(json.dumps(pairs[5:]))


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]))
