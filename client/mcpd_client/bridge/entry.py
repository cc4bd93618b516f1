"""One line of the host on its way to the daemon, and whether it may be sent a second time."""

from mcpd_client.bridge import lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LISTEN = "subscriptions/listen"
# What is set by these holds for what comes later.
SETTINGS = frozenset(("initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"))
# What changes nothing, or nothing more the second time.
REPEATABLE = SETTINGS | {
    "server/discover", "ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list", LISTEN,
}  # fmt: skip
# A request that one daemon after the other does not survive is not worth another one.
MAX_SENDINGS = 3
# A larger request is not kept after it has been sent.
MAX_KEPT_BYTES = 65536


class Entry:
    """One line on its way to the daemon; `ids` are those of the requests in it, more than one in a batch."""

    __slots__ = ("acknowledged", "ids", "is_own", "line", "method", "params", "sendings", "since")

    def __init__(
        self, line: bytes, *, ids: "Sequence[str | int | float]" = (), method: str = "", since: float = 0
    ) -> None:
        self.line = line
        self.ids = ids
        self.method = method
        self.since = since
        self.params = lines.raw_params(line) if method in SETTINGS and len(line) <= MAX_KEPT_BYTES else ""
        self.sendings = 0
        self.acknowledged = False
        self.is_own = False

    @property
    def may_repeat(self) -> bool:
        """Whether it can be sent to the next daemon although this one may have read it."""
        if not self.line or len(self.line) > MAX_KEPT_BYTES:
            return False
        if self.method != LISTEN and (self.method not in REPEATABLE or self.sendings >= MAX_SENDINGS):
            return False
        # Of a large line only the ends have been read, and a method that is there twice would go by the last one.
        return len(self.line) <= lines.WHOLE_BYTES or lines.named_method(self.line) == self.method
