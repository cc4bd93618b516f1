"""The result of a tool as `mcpd call` prints it.

Text is printed as it is, nothing around it. What is no text has a line that says so; structured content
follows, unless the text says the same. On a terminal, and only there, text loses what a terminal would
obey. With `--json` the result goes out untouched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from mcpd.downstream.cli import fields
from mcpd.downstream.cli.blocks import block_text, is_text, single_line
from mcpd.downstream.cli.failures import EXIT_TOOL, EXIT_USAGE, for_people, indented
from mcpd.downstream.cli.text import Output, clean, one_line, with_newline
from mcpd.protocol import rawjson
from mcpd.protocol.jsonrpc import ABSENT
from mcpd.protocol.structured import repeats, says

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpd.downstream.cli.commandline import CallCommand
    from mcpd.downstream.cli.fields import Missing

# Of a tool's own error, where its text is no output.
MAX_ERROR_LINES = 6


class _Result(Struct, gc=False):
    content: Raw = ABSENT
    structuredContent: Raw = ABSENT
    isError: Raw = ABSENT
    meta: Raw = msgspec.field(name="_meta", default=ABSENT)


class _Meta(Struct, gc=False):
    view: Raw = msgspec.field(name="mcpd/view", default=ABSENT)


class _View(Struct, gc=False):
    bytes: int = 0
    shown: int = 0
    truncated: bool = False
    handle: str = ""
    nextOffset: int | None = None
    kept: int | None = None
    unasked: str = ""


_RESULT = msgspec.json.Decoder(_Result)
_META = msgspec.json.Decoder(_Meta)
_VIEW = msgspec.json.Decoder(_View)


def call_output(result: bytes | Raw, command: CallCommand, columns: int | None) -> Output:
    """Return what a call prints.

    Args:
        result: the JSON of the CallToolResult, with `mcpd/view` in its `_meta` if it may have been cut.
        command: what was asked for.
        columns: the width of the terminal that stdout is; None if it is none.

    Raises:
        ServerProtocol: The result is no object, or its content no array.
    """
    seen = rawjson.decode(_RESULT, result, "the result", "an object")
    status = EXIT_TOOL if bytes(seen.isError) == b"true" else 0
    if command.field is not None:
        return _field_output(result, seen, status, command, columns)
    if command.as_json:
        return Output(status, single_line(result) + "\n")
    notes = []
    if status:
        notes.append(f"error: {_said_error(command)}\n")
    if unasked := _view(seen).unasked:
        notes.append(f"note: {one_line(unasked, 400)}\n")
    notes.append(_cut_note(seen))
    return Output(status, _for(columns, _body(seen)), "" if command.quiet else "".join(notes))


def _body(seen: _Result) -> str:
    blocks = rawjson.elements(seen.content or b"[]", "`content` of the result")
    texts = [block_text(block) for block in blocks]
    if seen.structuredContent:
        said = [text for block, text in zip(blocks, texts, strict=True) if text and is_text(block)]
        if not (says(said, seen.structuredContent) or repeats(seen.content or Raw(b"[]"), seen.structuredContent)):
            texts.append(_pretty(seen.structuredContent))
    return joined(texts)


def joined(texts: Iterable[str]) -> str:
    """Return the texts one after the other, each beginning on a line of its own, with a newline at the end."""
    return "".join(with_newline(text) for text in texts)


def _pretty(value: Raw) -> str:
    """Return JSON for people; its numbers stay what they were."""
    if rawjson.kind(value) == "null":
        return ""
    try:
        return msgspec.json.format(bytes(value), indent=2).decode("utf-8", "replace")
    except (msgspec.DecodeError, RecursionError):
        return single_line(value)


def _for(columns: int | None, text: str) -> str:
    return text if columns is None else clean(text)


def _said_error(command: CallCommand) -> str:
    return f"tool '{one_line(command.tool, 200)}' of '{one_line(command.server, 200)}' reported an error"


# -- what was cut ------------------------------------------------------------------------------------


def _view(seen: _Result) -> _View:
    """Return the view that the daemon has described; nothing is cut where it has not."""
    try:
        return _VIEW.decode(_META.decode(seen.meta).view)
    except (msgspec.DecodeError, RecursionError):
        return _View()


def _cut_note(seen: _Result) -> str:
    view = _view(seen)
    if not view.truncated:
        return ""
    shown = f"shown {view.shown} of {view.bytes} bytes"
    if not view.handle:
        return f"{shown}; the rest is not kept: call again with --max-bytes {view.bytes}\n"
    # Without a next part only blocks are missing that were too large to be shown at all.
    where = f"--max-bytes {view.bytes}" if view.nextOffset is None else f"--offset {view.nextOffset}"
    kept = f"\nwarning: only the first {view.kept} bytes are kept (limits.result_bytes)" if view.kept else ""
    return f"{shown}; the next part: mcpd fetch {one_line(view.handle, 200)} {where}{kept}\n"


# -- one value ---------------------------------------------------------------------------------------


def _field_output(result: bytes | Raw, seen: _Result, status: int, command: CallCommand, columns: int | None) -> Output:
    steps = fields.parse_path(command.field or "")
    try:
        value = fields.find(result, steps)
    except fields.Missing as missing:
        return _without_field(missing, seen, status, command)
    text = None if command.as_json else rawjson.string(value)
    printed = single_line(value) if text is None else text
    # Text may be cut; everything else is there as a whole or not at all.
    note = _cut_note(seen) if steps[0] == "content" and not command.quiet else ""
    return Output(status, _for(columns, with_newline(printed)), note)


def _without_field(missing: Missing, seen: _Result, status: int, command: CallCommand) -> Output:
    if status:
        # Whoever reads stdout expects the value and must not take a complaint for it.
        return Output(status, "", for_people(_said_error(command), indented(_body(seen), MAX_ERROR_LINES)))
    hint = None
    if (view := _view(seen)).truncated:
        hint = f"the result was cut: call again with --max-bytes {view.bytes}"
    return Output(EXIT_USAGE, "", for_people(missing.message, [missing.reason], hint))
