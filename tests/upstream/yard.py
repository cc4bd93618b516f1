"""A guard with what was started with it, and a way to wait in its tests."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import trio

from tests.upstream.deaf import SIZES
from tests.upstream.link import DEAF, LOOK_SECONDS, PATIENCE_SECONDS, living, new_token

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpd.upstream.guard import Guard

ENV = {"PATH": "/usr/bin:/bin"}


class Quiet:
    """A log that remembers the names of events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def warning(self, event: str, **facts: Any) -> None:
        self.events.append(event)


class Started:
    """A server that was started, with our ends of its pipes."""

    def __init__(self, guard: Guard) -> None:
        (in_r, self.stdin), (self.stdout, out_w), (self.stderr, err_w) = (os.pipe() for _ in range(3))
        self._guard, self._theirs = guard, (in_r, out_w, err_w)
        self.token = new_token()
        self.pid = self.pidfd = -1

    async def spawn(self, *argv: str, env: Mapping[str, str] = ENV, cwd: str = "/") -> Started:
        try:
            self.pid, self.pidfd = await self._guard.spawn(argv, env, cwd, self._theirs)
        finally:
            for fd in self._theirs:
                os.close(fd)
        return self

    async def exited(self) -> Started:
        with trio.fail_after(PATIENCE_SECONDS):
            await trio.lowlevel.wait_readable(self.pidfd)
        return self

    def close(self) -> None:
        for fd in (self.stdin, self.stdout, self.stderr, self.pidfd):
            if fd != -1:
                os.close(fd)


class Yard:
    """A guard, and what was started with it."""

    def __init__(self, guard: Guard, log: Quiet) -> None:
        self.guard, self.log = guard, log
        self._started: list[Started] = []

    def new(self) -> Started:
        """Return what a server could be started with."""
        self._started.append(Started(self.guard))
        return self._started[-1]

    async def spawn(self, *argv: str, **more: Any) -> Started:
        return await self.new().spawn(*argv, **more)

    async def deaf(self, kind: str) -> Started:
        """Start a server of a kind, and wait until all of its processes are there."""
        one = self.new()
        await one.spawn(sys.executable, "-I", "-S", DEAF, kind, one.token)
        await until(lambda: len(living(one.token)) == SIZES[kind])
        return one

    async def run(self, *argv: str) -> int | None:
        """Let a program run to its end; return its wait status."""
        return await self.guard.end((await (await self.spawn(*argv)).exited()).pid)

    def forget(self, one: Started) -> None:
        self._started.remove(one)
        one.close()

    def close(self) -> None:
        for one in self._started:
            one.close()


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition that comes true by itself."""
    with trio.fail_after(PATIENCE_SECONDS):
        await trio.lowlevel.checkpoint()
        while not condition():  # noqa: ASYNC110  # nobody tells when a process is gone
            await trio.sleep(LOOK_SECONDS)
