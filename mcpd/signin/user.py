"""The user's part: a page is shown, and an answer comes back, through the browser or pasted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from urllib.parse import parse_qs, urlsplit

import trio

from . import browser
from .answer import Answer, read_pasted
from .callback import Callback
from .problems import SignInFailed
from .urls import UnfitUrl, checked

MAX_LINE_BYTES = 65536
SLIPPED = "that is not the address of the page after the sign-in; paste the whole of it: "

Say = Callable[[str], None]


class User:
    """Whoever signs in.

    Args:
        server: what they sign in to.
        callback: where the browser comes back.
        command: opens a page; None where there is no browser to open it with.
        pasted_from: a descriptor that the user can paste an address into; None where there is none.
        patience_seconds: how long they may take.
        insecure: whether the page may be over plain http.
        say: tells them something.
    """

    def __init__(
        self,
        server: str,
        callback: Callback,
        *,
        command: Sequence[str] | None,
        pasted_from: int | None,
        patience_seconds: float,
        insecure: bool,
        say: Say,
    ) -> None:
        self._server, self._callback, self._command, self._pasted_from = server, callback, command, pasted_from
        self._patience_seconds, self._insecure, self._say = patience_seconds, insecure, say
        self._browser: subprocess.Popen[bytes] | None = None

    async def show(self, url: str) -> None:
        """Show the page of the authorization server.

        Raises:
            SignInFailed: It must not be shown.
        """
        url = mended(url)
        try:
            checked(url, insecure=self._insecure)
        except UnfitUrl as problem:
            raise SignInFailed(
                f"the page to sign in to {self._server} is not opened: {problem}", server=self._server
            ) from None
        self._callback.expect(parse_qs(urlsplit(url).query).get("state", [""])[0])
        self._say(f"to sign in to {self._server}, open this page:\n{url}\n")
        if self._command is not None:
            try:
                self._browser = browser.show(self._command, url)
            except OSError as error:
                self._say(f"{self._command[0]} does not start: {error.strerror}\n")
            else:
                self._say("it opens in your browser now; waiting for its answer, Ctrl-C stops\n")
        elif self._pasted_from is None:
            self._say("waiting for the browser's answer, Ctrl-C stops\n")

    async def answer(self) -> Answer:
        """Wait for the answer.

        Raises:
            SignInFailed: It did not come in time.
        """
        with trio.move_on_after(self._patience_seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._callback.serve)
                if self._pasted_from is not None:
                    nursery.start_soon(self._read_pasted, self._pasted_from)
                if self._browser is not None:
                    nursery.start_soon(self._watch, self._browser)
                await self._callback.wait()
                nursery.cancel_scope.cancel()
        if self._callback.answer is None:
            why = f"nobody has signed in to {self._server} within {self._patience_seconds:g} s"
            raise SignInFailed(why, server=self._server, hint=f"mcpd login {self._server} --timeout SECONDS")
        return self._callback.answer

    async def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Say so if the browser's command fails; one that stays is the user's browser, and not ours to end."""
        status = await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
        if status != 0:
            self._say(f"the browser's command ended with {status}: open the page yourself\n")

    async def _read_pasted(self, fd: int) -> None:
        """Read lines until one of them is the answer."""
        self._say("if it ends at a page that cannot be shown, paste that page's address here:\n")
        lines = Lines(fd)
        while (line := await lines.next()) is not None:
            if line.strip() and not self._callback.offer(read_pasted(line)):
                self._say(SLIPPED)


class Lines:
    """The lines of a descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd, self._buffer = fd, b""

    async def next(self) -> str | None:
        """Return the next one; None at the end, where it cannot be waited for, and where it is too long."""
        while b"\n" not in self._buffer:
            try:
                await trio.lowlevel.wait_readable(self._fd)
                more = os.read(self._fd, 4096)
            except BlockingIOError:  # somebody else has read it
                continue
            except OSError:  # a file, or nothing at all
                return None
            if not more or len(self._buffer) > MAX_LINE_BYTES:
                return None
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace")


def mended(url: str) -> str:
    """Return the URL of the page with one query.

    An authorization endpoint may have a query of its own, which stays (RFC 6749, 3.1); the SDK puts a second `?` behind it.
    """
    head, mark, rest = url.partition("?")
    return f"{head}{mark}{rest.replace('?response_type=', '&response_type=', 1)}"
