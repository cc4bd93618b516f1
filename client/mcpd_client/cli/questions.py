"""Questions of servers to the user (elicitation), asked on a terminal.

What a server says is marked as such: its text is stripped of what a terminal obeys, cut to lines that fit
and set behind a bar, so that it cannot look like ours. The answers go to the daemon and nowhere else.
"""

from __future__ import annotations

import os
import termios
import textwrap
from contextlib import ExitStack, suppress

from mcpd_client.cli.render import clean, clean_line, display_width, shorten, terminal_columns
from mcpd_client.elicit import MODES, NONE, Field
from mcpd_client.errors import RequestRefused, Withdrawn
from mcpd_client.fast import write_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpd_client.cli.progress import ProgressLine
    from mcpd_client.waiting import ServerRequest

# What a client with a terminal declares; `fast` has the same as text.
CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}}
INVALID_PARAMS = -32602
# A server may send more, but nobody would read it.
MESSAGE_LINES = 40
SHOWN_CHOICES = 100
READ_BYTES = 4096


class Asker:
    """Asks the user; give it to a request as its `on_request`.

    Args:
        progress: the line that has to go while something is asked.
        fd_in: the terminal to read from.
        fd_out: the terminal to write to.
    """

    def __init__(self, progress: ProgressLine | None = None, *, fd_in: int = 0, fd_out: int = 2) -> None:
        self._progress = progress
        self._in = fd_in
        self._out = fd_out

    def __call__(self, request: ServerRequest) -> Mapping[str, Any]:
        """Return what the user answers.

        Raises:
            RequestRefused: it is something else than a question, or no proper one.
            Withdrawn: the answer is not wanted any more; the user has been told.
        """
        mode = mode_of(request)
        with ExitStack() as stack:
            if self._progress is not None:
                stack.enter_context(self._progress.held())
            self._forget_typed()
            try:
                return self._ask_url(request) if mode == "url" else self._ask_form(request)
            except EOFError:
                self._say("\ncancelled")
                return {"action": "cancel"}
            except Withdrawn as error:
                self._forget_typed()
                self._say(f"\nthe question was withdrawn: {clean_line(error.message)}")
                raise
            except KeyboardInterrupt:
                self._say("")
                raise

    def _ask_form(self, request: ServerRequest) -> Mapping[str, Any]:
        fields = Field.all_of(request.params.get("requestedSchema"))
        self._say(f"{asker_name(request)} asks:")
        self._quote(message_of(request))
        if len(fields) > 1 and not self._wants_to_answer(request):
            return {"action": "decline"}
        self._say(
            "(Enter takes what is in [brackets], Ctrl-D cancels, you can decline before it is sent)"
            if fields
            else "(Ctrl-D cancels)"
        )
        content = {field.name: field.default for field in fields if field.default is not None}
        while True:
            for field in fields:
                self._ask_field(request, field, content)
            action = self._ask_action(request, has_fields=bool(fields))
            if action == "accept":
                return {"action": "accept", "content": content}
            if action == "decline":
                return {"action": "decline"}

    def _wants_to_answer(self, request: ServerRequest) -> bool:
        """Ask before the first of several fields: who declines need not fill them in."""
        while True:
            match self._read(request, "Enter to answer, d to decline, Ctrl-D to cancel: ").strip().lower():
                case "":
                    return True
                case "d" | "decline" | "n" | "no":
                    return False

    def _ask_field(self, request: ServerRequest, field: Field, content: dict[str, Any]) -> None:
        """Ask until there is an answer, and put it into `content`; what is there already is the default."""
        has_default = field.name in content
        prompt = self._introduce(field, field.show(content[field.name]) if has_default else None)
        while True:
            text = self._read(request, prompt)
            if not text.strip():
                if has_default or not field.required:
                    return
                self._say("  an answer is required")
                continue
            try:
                content[field.name] = field.parse(text)
            except ValueError as error:
                self._say(f"  {clean_line(str(error))}")
                continue
            return

    def _introduce(self, field: Field, default: str | None) -> str:
        """Say what a field is about, and return its prompt."""
        if field.description:
            self._quote(field.description)
        for number, choice in enumerate(field.choices[:SHOWN_CHOICES], start=1):
            self._quote(f"{number}) {choice.title}" if field.is_numbered else choice.title)
        if len(field.choices) > SHOWN_CHOICES:
            self._say(f"  and {len(field.choices) - SHOWN_CHOICES} more")
        notes = "; ".join(note for note in (_instruction(field), "" if field.required else "optional") if note)
        title, suffix = clean_line(field.title), f" ({notes})" if notes else ""
        shown = "" if default is None else f" [{clean_line(default)}]"
        room = self._width() - 2
        if display_width(title + suffix + shown) > room and default is not None:
            # What Enter would take has to be seen whole.
            self._quote(f"default: {default}")
            shown = " [default]"
        if display_width(title + suffix + shown) > room and display_width(suffix) > room // 2:
            self._quote(notes)
            suffix = ""
        return f"  {shorten(title, room - display_width(suffix + shown))}{suffix}{shown}: "

    def _ask_action(self, request: ServerRequest, *, has_fields: bool) -> str:
        """Ask what to do with the answers; without fields, consent has to be said and not only not refused."""
        prompt = "Enter sends this, e edits it, d declines: " if has_fields else "y accepts, d declines: "
        while True:
            match self._read(request, prompt).strip().lower():
                case "y" | "yes":
                    return "accept"
                case "d" | "decline" | "n" | "no":
                    return "decline"
                case "" if has_fields:
                    return "accept"
                case "e" | "edit" if has_fields:
                    return "edit"

    def _ask_url(self, request: ServerRequest) -> Mapping[str, Any]:
        url, host = checked_url(request)
        self._say(f"{asker_name(request)} wants you to open a page in your browser:")
        self._quote(message_of(request))
        self._say(f"  {url}\n  host: {host}\n(nothing has been opened; Ctrl-D cancels)")
        action = self._ask_action(request, has_fields=False)
        if action == "accept":
            self._say("open it in a browser now; the server waits for what happens there")
        return {"action": action}

    def _read(self, request: ServerRequest, prompt: str) -> str:
        """Return the next line that is typed.

        Raises:
            EOFError: Ctrl-D, or the terminal has gone.
            Withdrawn: the question is not wanted any more.
        """
        write_text(self._out, prompt)
        data = b""
        while not data.endswith(b"\n"):
            request.wait_readable(self._in)
            try:
                chunk = os.read(self._in, READ_BYTES)
            except OSError:
                chunk = b""
            if not chunk:
                raise EOFError
            data += chunk
        return clean(data.decode("utf-8", "replace")).rstrip("\n")

    def _forget_typed(self) -> None:
        """Drop what was typed before: it was meant for something else."""
        with suppress(termios.error):
            termios.tcflush(self._in, termios.TCIFLUSH)

    def _quote(self, text: str) -> None:
        """Show text of a server, so that none of it begins a line."""
        lines: list[str] = []
        for line in clean(text).splitlines():
            # A character may be two cells wide; a line that wraps would begin at the edge.
            width = self._width() if line.isascii() else self._width() // 2
            lines += textwrap.wrap(line, width) or [""]
        if len(lines) > MESSAGE_LINES:
            lines[MESSAGE_LINES:] = [f"… ({len(lines) - MESSAGE_LINES} more lines)"]
        self._say("\n".join(f"  | {line}" for line in lines))

    def _say(self, text: str) -> None:
        write_text(self._out, f"{text}\n")

    def _width(self) -> int:
        return max((terminal_columns(self._out) or 80) - 8, 20)


def mode_of(request: ServerRequest) -> str:
    """Return `form` or `url`.

    Raises:
        RequestRefused: it is no question, or one of another mode.
    """
    if request.method != "elicitation/create":
        raise RequestRefused(f"this client does not answer {request.method}")
    mode = request.params.get("mode", "form")
    if mode not in MODES:
        raise RequestRefused(f"there is no mode {mode!r}", code=INVALID_PARAMS)
    return str(mode)


def asker_name(request: ServerRequest) -> str:
    """Return who asks, for people."""
    return "a server" if request.server is None else f"server {clean_line(request.server)!r}"


def message_of(request: ServerRequest) -> str:
    """Return what the server says, without the name that the daemon puts before it."""
    return str(request.params.get("message", "")).removeprefix(f"[{request.server}]").strip()


def checked_url(request: ServerRequest) -> tuple[str, str]:
    """Return the URL of a question and its host.

    Raises:
        RequestRefused: it is none for a browser, or written so that it could be taken for another one.
    """
    from urllib.parse import urlsplit

    url = request.params.get("url")
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host = parts.hostname if parts.scheme in ("http", "https") else None
    except ValueError:
        host = None
    # A browser takes "\" for "/", and so another host than everybody else.
    is_plain = isinstance(url, str) and url.isascii() and url.isprintable() and not set(url) & set(' \\"<>')
    if not host or not is_plain:
        raise RequestRefused("url must be an http or https URL in plain ASCII", code=INVALID_PARAMS)
    return str(url), host


def _instruction(field: Field) -> str:
    """Return what to type for a field, as short as it can be said."""
    match field.kind:
        case "choice":
            return "a number or a name" if field.is_numbered else "a name"
        case "choices":
            return f"{'numbers or names' if field.is_numbered else 'names'} with commas, {NONE} for none"
        case "boolean":
            return "y or n"
    expected = clean_line(field.expects())
    return "" if expected == "text" else expected
