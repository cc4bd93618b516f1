"""Commands of somebody who has nothing to do with the processes of a test, as in another terminal."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from itertools import count

from tests.integration.world import COMMAND, Done, World, until

# It begins when nothing of the test is above it any more.
ALONE = """
above=$$
(
  while kill -0 $above 2>/dev/null; do sleep 0.01; done
  "$@" >"$0.out" 2>"$0.err"
  echo $? >"$0.status.part"
  mv "$0.status.part" "$0.status"
) </dev/null >/dev/null 2>&1 &
"""
_numbers = count(1)


def begin_elsewhere(world: World, *argv: str) -> Callable[[], Done]:
    """Start any process that nobody of this test is above of; what is returned waits for its end."""
    base = world.path / f"elsewhere{next(_numbers)}"
    subprocess.run(("sh", "-c", ALONE, str(base), *argv), env=world.env, cwd=world.path, check=True)

    def end() -> Done:
        status = base.with_suffix(".status")
        until(status.exists)
        return Done(int(status.read_text()), base.with_suffix(".out").read_text(), base.with_suffix(".err").read_text())

    return end


def elsewhere(world: World, *argv: str) -> Done:
    """Run a command line of `mcpd` in another terminal, so to speak, to its end."""
    return begin_elsewhere(world, *COMMAND, *argv)()
