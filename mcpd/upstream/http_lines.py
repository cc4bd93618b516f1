"""Messages as they come out of bodies and events, and their way to whoever they are for."""

from __future__ import annotations

from mcpd.mover import Mover
from mcpd.protocol import jsonrpc
from mcpd.protocol.jsonrpc import NotJsonRpc
from mcpd.protocol.sse import BOM, Event

from .around import Listener


def answers(line: bytes, request_id: bytes) -> bool:
    """Whether a message is the answer to a request."""
    try:
        message = jsonrpc.decode(line)
    except NotJsonRpc:
        return False
    # Some servers turn the number into a string; no other id can be meant.
    found = bytes(message.id)
    return not message.method and request_id in (found, found[1:-1]) and bool(message.result or message.error)


def messages(events: list[Event]) -> list[bytes]:
    """Return what may be a message among some events."""
    return [one_line(event.data) for event in events if event.name == "message" and event.data[:64].strip()]


def one_line(body: bytes) -> bytes:
    """Return JSON as one line: what breaks lines between its tokens would do so wherever it goes next."""
    body = body.removeprefix(BOM).strip()
    if b"\n" in body or b"\r" in body:
        body = body.replace(b"\r", b" ").replace(b"\n", b" ")
    return body


def deliver(mover: Mover, owner: Listener, lines: list[bytes], origin: bytes) -> None:
    """Hand over what came together, in one batch."""

    def work() -> None:
        for line in lines:
            owner.on_message(line, origin)

    mover.batch(work)
