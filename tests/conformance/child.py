"""A server on stdin and stdout, as a client sees it: lines of JSON in both directions, and the end of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio

Json = dict[str, Any]

# It is told to end by the end of its input; it has this long.
LEAVE_SECONDS = 10.0


class Child:
    """One process.

    Args:
        on_message: gets each message that it writes.
        on_end: is called when it writes no more.
        note: gets each line, with the direction in front.
    """

    def __init__(
        self, on_message: Callable[[Json], None], on_end: Callable[[], None], note: Callable[[str, str], None]
    ) -> None:
        self._on_message, self._on_end, self._note = on_message, on_end, note
        self._outbox, self._lines = trio.open_memory_channel[bytes](float("inf"))
        self._told_to_end = trio.Event()
        self.trouble = ""  # what it did that no server may do
        self.has_ended = False

    def write(self, message: object) -> None:
        """Send a message; what comes after `close` goes nowhere."""
        line = json.dumps(message, ensure_ascii=False)
        self._note("->", line)
        try:
            self._outbox.send_nowait(line.encode() + b"\n")
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            self._note("--", "not sent: the server has ended")

    def close(self) -> None:
        """Close its input, once all is written."""
        self._outbox.close()
        self._told_to_end.set()

    async def run(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Be the process until it has ended."""
        process = await trio.lowlevel.open_process(
            [*command], env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        task_status.started()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read_errors, process)
                nursery.start_soon(self._write_lines, process)
                nursery.start_soon(self._end_in_time, process)
                await self._read(process)
                if not self._told_to_end.is_set():
                    self.trouble = "it ended before it was told to"
                    self.close()
                self.has_ended = True
                self._on_end()
                await process.wait()
                nursery.cancel_scope.cancel()
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()

    async def _end_in_time(self, process: trio.Process) -> None:
        await self._told_to_end.wait()
        await trio.sleep(LEAVE_SECONDS)
        self.trouble = "it did not end when its input did"
        process.kill()

    async def _write_lines(self, process: trio.Process) -> None:
        assert process.stdin
        async with process.stdin as stdin, self._lines:
            async for line in self._lines:
                try:
                    await stdin.send_all(line)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return

    async def _read(self, process: trio.Process) -> None:
        assert process.stdout
        data = b""
        async for chunk in process.stdout:
            *lines, data = (data + chunk).split(b"\n")
            for line in lines:
                self._take(line)
        if data:
            self.trouble = f"a line without an end: {data!r}"

    def _take(self, line: bytes) -> None:
        self._note("<-", line.decode(errors="replace"))
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if isinstance(message, dict) and message.get("jsonrpc") == "2.0":
            self._on_message(message)
        else:
            self.trouble = f"a line that is no message: {line!r}"

    async def _read_errors(self, process: trio.Process) -> None:
        assert process.stderr
        async for chunk in process.stderr:
            self._note("!!", chunk.decode(errors="replace"))
