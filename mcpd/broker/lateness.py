"""The error of a call whose time has run out: how far it has come, and what it has waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpd.errors import CallTimeout

if TYPE_CHECKING:
    from .call import Call
    from .parties import Place


def timed_out(call: Call, place: Place, seconds: float, began: bool, queued: bool) -> CallTimeout:
    """Return the error.

    Args:
        call: the one that is given up.
        place: of its upstream.
        seconds: how long it might take.
        began: the server has it, or had it.
        queued: it has waited for a place all the time.
    """
    server = place.slot.server.name
    problem = CallTimeout(
        f"server '{server}' {_how_far(call, place, queued)} '{call.what}' within {round(seconds, 2):g} s",
        server=server,
        hint=None if call.client.patient else f"mcpd {call.request.command} --timeout {max(1, round(seconds * 4)):g} …",
        may_have_run=began,
        seconds=round(seconds, 3),
    )
    problem.details[call.request.noun] = call.what
    return problem


def _how_far(call: Call, place: Place, queued: bool) -> str:
    if call.id:  # it has one as soon as it was sent once
        return "did not answer"
    if not queued:
        return "was not ready for"
    if place.admission.lane not in (None, call.client.key):
        return "was taken by a call of another client that may be asked something, and had no time for"
    return "was busy with other calls, and had no place for"
