"""Runs the command of an entry that prints headers: no shell, a bounded time, and nothing is left of it.

It is started by the guardian, as servers are. Neither its output nor what it says on stderr is shown anywhere.
"""

from __future__ import annotations

import os
import re

import msgspec
import trio

from mcpd.config.expand import Launch
from mcpd.errors import ConnectFailed, ServerUnavailable

from .guard import Guard
from .process import KILL_SECONDS, Process

HELPER_SECONDS = 10.0
# Asked to go when its time is over, it has so long.
TERM_SECONDS = 0.5
LAST_SECONDS = 1.0
MAX_BYTES = 64 * 1024
MAX_HEADERS = 64
_name = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_value = re.compile(r"[\x20-\x7e\t]*").fullmatch
_decode = msgspec.json.Decoder(dict[str, str]).decode


async def run_helper(guard: Guard, launch: Launch) -> dict[str, str]:
    """Run `launch.helper` and return the headers that it prints, as a JSON object of texts.

    Raises:
        ConnectFailed: It cannot be run, takes too long, fails, or prints something else.
    """
    try:
        process = await Process.start(guard, msgspec.structs.replace(launch, argv=launch.helper))
    except ServerUnavailable as problem:
        raise ConnectFailed(f"its headers_helper cannot be run: {problem.message}") from None
    os.close(process.stdin)
    output = _Output()
    try:
        async with trio.open_nursery() as reading:
            reading.start_soon(output.read, process.stdout)
            reading.start_soon(_drain, process.stderr)
            with trio.move_on_after(HELPER_SECONDS) as limit:
                await process.exited()
            await process.end(0, TERM_SECONDS if limit.cancelled_caught else 0)
            # Whatever held the pipe open is gone: only what is in it is still to come.
            with trio.move_on_after(LAST_SECONDS):
                await output.ended.wait()
            reading.cancel_scope.cancel()
    finally:
        with trio.move_on_after(KILL_SECONDS, shield=True):
            await process.end(0, 0)
    if limit.cancelled_caught:
        raise ConnectFailed(f"its headers_helper did not end within {HELPER_SECONDS:g} s")
    if process.status != "exit status 0":
        raise ConnectFailed(f"its headers_helper failed ({process.status or 'nobody knows how'})")
    return headers_in(bytes(output.data))


def headers_in(printed: bytes) -> dict[str, str]:
    """Return the headers of an output.

    Raises:
        ConnectFailed: It is something else, which is not shown.
    """
    if len(printed) > MAX_BYTES:
        raise ConnectFailed(f"its headers_helper printed more than {MAX_BYTES} bytes")
    try:
        headers = _decode(printed)
    except msgspec.MsgspecError:
        raise ConnectFailed("its headers_helper printed something else than a JSON object of texts") from None
    if len(headers) > MAX_HEADERS or not all(_name(name) and _value(value) for name, value in headers.items()):
        raise ConnectFailed("its headers_helper printed something that cannot be sent as headers")
    return {name: value.strip() for name, value in headers.items()}


class _Output:
    """What it prints, up to the limit and a byte; `ended` when it has closed its output."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = trio.Event()

    async def read(self, fd: int) -> None:
        async with trio.lowlevel.FdStream(fd) as stream:
            while piece := await stream.receive_some(MAX_BYTES):
                self.data += piece[: MAX_BYTES + 1 - len(self.data)]
        self.ended.set()


async def _drain(fd: int) -> None:
    """Let it write what it likes."""
    async with trio.lowlevel.FdStream(fd) as stream:
        while await stream.receive_some(MAX_BYTES):
            pass
