"""What a bridge says itself, when there is no daemon that could: errors, and what keeps a host patient."""

from mcpd_client.bridge import lines

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
USUAL_REVISION = "2025-11-25"
# Nothing is known of the servers yet; when a daemon comes, it says that all lists have changed.
CAPABILITIES = '{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}'
# What can be answered without a daemon. A host that gets no answer to these gives the server up.
STAND_INS = frozenset(("initialize", "server/discover", "ping"))


class Failure:
    """Why there is no daemon: the code and class of the error that a request gets, a sentence, and what helps."""

    __slots__ = ("code", "hint", "kind", "message")

    def __init__(
        self, message: str, hint: str | None = None, *, code: int = 40, kind: str = "daemon_unreachable"
    ) -> None:
        self.message = message
        self.hint = hint
        self.code = code
        self.kind = kind

    def answer(self, request_id: object) -> bytes:
        """Return the error for one request; it has not run."""
        return lines.error_line(
            request_id, self.code, self.message, {"class": self.kind, "may_have_run": False, "hint": self.hint}
        )


def stand_in(method: str, request_id: object, line: bytes, info: str) -> bytes:
    """Return the answer to one of `STAND_INS`.

    Args:
        method: its method.
        request_id: its id.
        line: the request.
        info: the Implementation object of the bridge, as JSON.
    """
    result = "{}"
    if method == "initialize":
        asked = member(line, "protocolVersion")
        revision = asked if asked in REVISIONS else USUAL_REVISION
        result = f'{{"protocolVersion":"{revision}","capabilities":{CAPABILITIES},"serverInfo":{info}}}'
    elif method == "server/discover":
        result = (
            f'{{"resultType":"complete","supportedVersions":["{REVISIONS[-1]}"],"capabilities":{CAPABILITIES},'
            f'"ttlMs":0,"cacheScope":"private","_meta":{{"io.modelcontextprotocol/serverInfo":{info}}}}}'
        )
    return lines.result_line(request_id, result)


def lost(request_id: object, *, may_have_run: bool) -> bytes:
    """Return the error for a request that has gone with its daemon."""
    message = "the daemon ended before it answered" if may_have_run else "the daemon ended before this was sent"
    hint = "find out whether it has run before you repeat it" if may_have_run else "try again"
    return lines.error_line(
        request_id, 11, message, {"class": "server_lost", "may_have_run": may_have_run, "hint": hint}
    )


def withdrawal(request_id: object) -> bytes:
    """Return the notification that nobody waits for the host's answer any more."""
    params = f'{{"requestId":{lines.text_of(request_id)},"reason":"the daemon that asked is gone"}}'
    return lines.notification_line("notifications/cancelled", params)


def too_long(request_id: object, limit: int) -> bytes:
    """Return the error for a line of the host that is over the limit; it has not been passed on."""
    message = f"the message is larger than {limit} bytes"
    return lines.error_line(request_id, 14, message, {"class": "too_large", "may_have_run": False})


def member(line: bytes, name: str) -> object:
    """Return a member of a message's parameters, None if there is none."""
    message = lines.parse(line)
    params = message.get("params") if isinstance(message, dict) else None
    return params.get(name) if isinstance(params, dict) else None


def reason(line: bytes) -> str | None:
    """Return the text of an error, None if there is none."""
    message = lines.parse(line)
    error = message.get("error") if isinstance(message, dict) else None
    text = error.get("message") if isinstance(error, dict) else None
    return text if isinstance(text, str) else None
