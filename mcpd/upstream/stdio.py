"""The stdio transport: whole JSON-RPC messages over a child's pipes; knows no MCP.

stdout is framed, stderr goes into a ring, both are drained to their very end. The transport is over
when stdout ends, or when the leader has exited and its last bytes had a moment to arrive: a
grandchild may keep the pipe open for ever.

Spec: 2025-11-25 and 2026-07-28 basic/transports, "stdio".
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Protocol

import trio

from mcpd.config.expand import Launch
from mcpd.mover import Mover
from mcpd.protocol.framing import FrameDecoder, Overlong, encode_frame
from mcpd.timers import Timers

from .guard import Guard
from .process import Process

# Last words travel through a pipe whose writer is gone: they are there already.
LAST_BYTES_SECONDS = 0.05
# An exit follows the end of stdout closely, and tells why.
EXIT_SECONDS = 0.5

RING_BYTES = 64 * 1024


class Owner(Protocol):
    """Who gets what the transport reads."""

    def on_line(self, line: bytes | bytearray) -> None:
        """Take one message, or a line that should have been one."""

    def on_overlong(self, head: bytes) -> None:
        """Take note of a line over the limit, of which only the head was kept."""

    def on_over(self) -> None:
        """Take note that no message will come any more."""


class Ring:
    """The last 64 KiB of a server's stderr, with the time of each piece.

    While there are `followers`, every line is told as it comes.
    """

    def __init__(
        self,
        followers: Collection[object] = (),
        tell: Callable[[str], object] = str,
        max_bytes: int = RING_BYTES,
    ) -> None:
        self._max_bytes, self._tell = max_bytes, tell
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._held = 0
        self._followers = followers
        self._partial = b""
        self._is_cut = False
        self.total_bytes = 0

    def append(self, data: bytes) -> None:
        """Keep a piece, forgetting the oldest ones."""
        self.total_bytes += len(data)
        kept = data[-self._max_bytes :]
        self._pieces.append((time.time(), kept))
        self._held += len(kept)
        self._is_cut |= len(kept) < len(data)
        while self._held > self._max_bytes:
            self._held -= len(self._pieces.popleft()[1])
            self._is_cut = True
        if self._followers:
            self._follow(data)

    def _follow(self, data: bytes) -> None:
        *lines, rest = (self._partial + data).split(b"\n")
        self._partial = rest[-self._max_bytes :]
        for line in lines:
            self._tell(line.decode("utf-8", "replace"))

    def clear(self) -> None:
        """Forget what is held: it is another process's from here on."""
        self._pieces.clear()
        self._held = 0
        self._is_cut = False

    def lines(self, last: int | None = None) -> list[tuple[float, str]]:
        """Return the lines that are held, each with its time.

        Of one whose beginning is forgotten nobody can tell what of it is secret: it is left out, and where it
        is the only one, its first word.
        """
        found: list[tuple[float, str]] = []
        rest, since = b"", 0.0
        for when, piece in self._pieces:
            *whole, following = piece.replace(b"\r", b"\n").split(b"\n")
            for number, line in enumerate(whole):
                found.append((since if rest and not number else when, (rest + line).decode("utf-8", "replace")))
                rest = b""
            since = since if rest else when
            rest += following
        found.append((since, rest.decode("utf-8", "replace")))
        if self._is_cut:
            first, cut = found.pop(0)
            if not any(line.strip() for _, line in found):
                found = [(first, cut.partition(" ")[2])]
        found = [(when, line) for when, line in found if line.strip()]
        return found if last is None else found[-last:] if last else []


class StdioTransport:
    """One process and its pipes.

    Attributes:
        process: the server's process.
        over: no message will come any more.
        problem: what our own code raised while reading, if that is why it is over.
    """

    def __init__(
        self, process: Process, mover: Mover, timers: Timers, owner: Owner, ring: Ring, max_bytes: int, framing: str
    ) -> None:
        self.process = process
        self.over = self._ended = False
        self.problem: Exception | None = None
        self._mover, self._timers, self._owner = mover, timers, owner
        self._decoder = FrameDecoder(max_bytes)
        # What a server writes says nothing about what it can read.
        self._framing = "content-length" if framing == "content-length" else "newline"
        self._out = mover.open(process.stdout, process.stdin, self._on_bytes, self._on_end, self._on_crash)
        self._err = mover.open(process.stderr, None, ring.append, lambda _: None, lambda _: None)
        mover.listen(process.pidfd, self._on_exit)

    @property
    def pid(self) -> int:
        """The leader's pid."""
        return self.process.pid

    def kill(self) -> None:
        """End the process now, without any politeness."""
        self.process.kill()

    async def exits_within(self, seconds: float) -> bool:
        """Wait for the leader's exit, but not longer than that; say whether it came."""
        return await self.process.exits_within(seconds)

    @property
    def backlog_bytes(self) -> int:
        """How much waits to be written because the server does not read."""
        return self._out.out_bytes

    def send(self, body: bytes) -> bytes:
        """Queue one message; return what was queued, to ask `untouched` or `withdraw` about it."""
        frame = body + b"\n" if self._framing == "newline" else encode_frame(body, self._framing)
        self._out.write(frame)
        return frame

    def untouched(self, frame: bytes) -> bool:
        """Whether the write of a frame has not begun."""
        return self._out.untouched(frame)

    def withdraw(self, frame: bytes) -> bool:
        """Take back a frame whose write has not begun."""
        return self._out.withdraw(frame)

    async def end(self, eof_seconds: float, term_seconds: float) -> str | None:
        """Close stdin, end the process and all of its group, close the pipes; say how it ended.

        Bounded and shielded as `Process.end`. Idempotent.
        """
        if self._ended:
            return self.process.status
        self._ended = True
        self._out.close_write()
        if self.over:
            # It closed its output by itself: one that is leaving is given the time to be seen as that.
            with trio.CancelScope(shield=True):
                eof_seconds = eof_seconds if await self.process.exits_within(EXIT_SECONDS) else 0.0
        self._mover.forget(self.process.pidfd)
        await self.process.end(eof_seconds, term_seconds)
        self._out.close()
        self._err.close()
        self.over = True
        return self.process.status

    def _on_bytes(self, data: bytes) -> None:
        owner = self._owner
        for frame in self._decoder.feed(data):
            if isinstance(frame, Overlong):
                owner.on_overlong(frame.head)
            else:
                owner.on_line(frame)

    def _on_exit(self, _: int) -> None:
        self._mover.forget(self.process.pidfd)
        self._timers.after(LAST_BYTES_SECONDS, self._finish)

    def _on_end(self, gone: bool) -> None:
        if gone:  # it reads no more: no call can reach it, but last words may be on their way
            self._timers.after(LAST_BYTES_SECONDS, self._finish)
        else:
            self._finish()

    def _on_crash(self, problem: Exception) -> None:
        self.problem = problem
        self._finish()

    def _finish(self) -> None:
        if self.over:
            return
        self.over = True
        if (last := self._decoder.finish()) is not None:
            self._owner.on_line(last)
        self._owner.on_over()


async def open_stdio(
    guard: Guard,
    mover: Mover,
    timers: Timers,
    owner: Owner,
    ring: Ring,
    launch: Launch,
    max_bytes: int,
    framing: str,
) -> StdioTransport:
    """Start a server and return its transport.

    Raises:
        ServerUnavailable: It cannot be run.
    """
    process = await Process.start(guard, launch)
    return StdioTransport(process, mover, timers, owner, ring, max_bytes, framing)
