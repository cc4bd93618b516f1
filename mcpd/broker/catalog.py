"""What one upstream offers: tools, prompts, resources and templates, fetched once for all who ask.

One walk serves every caller. A list stays good until the server says that it has changed, until a new
incarnation, or for a while where the server does not say. When a walk fails, or is cut short by a
limit, the list before it is kept and marked stale.

Spec: pagination and list_changed of 2024-11-05 … 2026-07-28.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import msgspec
import trio
from msgspec import Raw

from mcpd.config.model import Tools
from mcpd.errors import CallTimeout, McpdError, ServerProtocol
from mcpd.protocol import jsonrpc
from mcpd.protocol import session as sessions
from mcpd.protocol.jsonrpc import ErrorView, Message
from mcpd.protocol.paging import Item, Walk
from mcpd.protocol.session import Session
from mcpd.upstream.channel import Awaited
from mcpd.upstream.supervisor import Slot

from .ranking import Index

WALK_SECONDS = 30.0
# Of a list whose server never says that it has changed.
UNDECLARED_SECONDS = 60.0

# Our word -> method, member of the result, capability, notification.
KINDS = {
    "tools": ("tools/list", "tools", "tools", "notifications/tools/list_changed"),
    "prompts": ("prompts/list", "prompts", "prompts", "notifications/prompts/list_changed"),
    "resources": ("resources/list", "resources", "resources", "notifications/resources/list_changed"),
    "templates": ("resources/templates/list", "resourceTemplates", "resources", "notifications/resources/list_changed"),
}


@dataclass
class Listing:
    """One list, as it was fetched.

    `change` counts the server's notifications before it was asked. `items` are (name, descriptor) in the server's order; `set_aside` names what was wrong with those
    that are missing; `incomplete` says why the walk stopped early, if it did.
    """

    items: list[tuple[str, Raw]] = field(default_factory=list)
    revision: int = 0
    incarnation: int = 0
    fetched_at: float = 0.0
    change: int = 0
    incomplete: str | None = None
    set_aside: list[str] = field(default_factory=list)
    names: dict[str, Raw] = field(default_factory=dict)
    tagged: list[Item] | None = None
    index: Index | None = None


class _Annotations(msgspec.Struct):
    readOnlyHint: bool = False
    idempotentHint: bool = False


class _Annotated(msgspec.Struct):
    annotations: _Annotations | None = None


def is_harmless(descriptor: Raw) -> bool:
    """Whether a server says of a tool that running it twice is like running it once."""
    try:
        hints = msgspec.json.decode(descriptor, type=_Annotated).annotations
    except (msgspec.MsgspecError, RecursionError):
        return False
    return hints is not None and (hints.readOnlyHint or hints.idempotentHint)


def matches(globs: Iterable[str], name: str) -> bool:
    """Whether a name fits one of the globs."""
    return any(fnmatchcase(name, glob) for glob in globs)


class Catalog:
    """The lists of one slot.

    Args:
        slot: the upstream.
        start: runs a walk as a task of its own, so that no caller's leaving ends it for the others.
        policy: globs of tool names; applied to every list of tools.
    """

    def __init__(self, slot: Slot, start: Callable[[Callable[[], object]], None], policy: Tools) -> None:
        self._slot, self._start, self._policy = slot, start, policy
        self._known: dict[str, Listing] = {}
        self._walks: dict[str, trio.Event] = {}
        self._failed: dict[str, McpdError] = {}
        self._changes: Counter[str] = Counter()
        self._revision = 0
        self._open = policy.allow == ("*",) and not policy.deny

    @property
    def tools(self) -> Listing | None:
        """The tools that are at hand, fresh or not."""
        return self._known.get("tools")

    def failed(self, kind: str) -> bool:
        """Whether the last walk did not bring a list."""
        return kind in self._failed

    def known(self, kind: str) -> Listing | None:
        """Return what is at hand, fresh or not, without asking anybody."""
        return self._known.get(kind)

    def allows(self, tool: str) -> bool:
        """Whether the configuration lets a tool be seen and called; deny wins."""
        if self._open:
            return True
        allow, deny = self._policy.allow, self._policy.deny
        return matches(allow, tool) and not matches(deny, tool)

    def on_notification(self, message: Message) -> None:
        """Note that a list has changed; it is fetched when somebody asks for it."""
        for kind, (*_, notification) in KINDS.items():
            if message.method == notification:
                self._changes[kind] += 1

    async def listing(self, kind: str, *, fresh: bool = False) -> tuple[Listing, bool]:
        """Return a list, and whether it is stale.

        An upstream that is not running is started for it, unless a list of an earlier run is at hand.

        Raises:
            McpdError: There is no list, and none can be had.
        """
        found = self._known.get(kind)
        if found is not None and not fresh:
            if self._slot.session is None:
                return found, True
            if self._good(kind, found):
                return found, False
        await self._walk(kind)
        found = self._known.get(kind)
        problem = self._failed.get(kind)
        if found is None:
            raise problem or ServerProtocol(f"there is no list of {kind}", server=self._slot.server.name)
        return found, problem is not None

    def _good(self, kind: str, found: Listing) -> bool:
        session = self._slot.session
        if session is None or found.change != self._changes[kind] or found.incarnation != session.incarnation:
            return False
        capability = KINDS[kind][2]
        return session.declares(capability, "listChanged") or (
            trio.current_time() - found.fetched_at < UNDECLARED_SECONDS
        )

    async def _walk(self, kind: str) -> None:
        """Join the walk that is under way, or begin one."""
        done = self._walks.get(kind)
        if done is None:
            done = self._walks[kind] = trio.Event()
            self._start(lambda: self._fetch(kind, done))
        await done.wait()

    async def _fetch(self, kind: str, done: trio.Event) -> None:
        """Walk all pages and keep the outcome, whatever it is."""
        self._failed.pop(kind, None)
        name = self._slot.server.name
        try:
            session = await self._slot.ready()
            with trio.move_on_after(WALK_SECONDS) as limit:
                await self._fetch_all(kind, session)
            if limit.cancelled_caught:
                why = f"server '{name}' did not list its {kind} within {WALK_SECONDS:g} s"
                self._failed[kind] = CallTimeout(why, server=name)
        except McpdError as problem:
            self._failed[kind] = problem
        finally:
            del self._walks[kind]
            done.set()

    async def _fetch_all(self, kind: str, session: Session) -> None:
        method, member, capability, _ = KINDS[kind]
        limits, name = self._slot.server.limits, self._slot.server.name
        walk = Walk(member, limits.items, limits.pages)
        found = Listing(incarnation=session.incarnation, change=self._changes[kind])
        if kind != "tools" and not session.offers(capability):
            self._keep(kind, found)
            return
        while (params := walk.request()) is not None:
            answer = await self._ask(method, params)
            if isinstance(answer, ErrorView):
                if answer.code != jsonrpc.METHOD_NOT_FOUND or walk.items:
                    raise ServerProtocol(f"server '{name}' refused {method}: {answer.message}", server=name)
                break  # declared or not, it has none
            try:
                walk.accept(answer)
            except ServerProtocol as problem:
                problem.message = f"server '{name}': {problem.message}"
                problem.server = name
                raise
        self._accept(kind, found, walk)

    async def _ask(self, method: str, params: bytes) -> Raw | ErrorView:
        exchange = Awaited(
            method, lambda session: sessions.list_params(params, sessions.meta(session)), self._slot.wake
        )
        self._slot.submit(exchange)
        try:
            return await exchange.outcome()
        except trio.Cancelled:
            self._slot.give_up(exchange, "no longer needed")
            raise

    def _accept(self, kind: str, found: Listing, walk: Walk) -> None:
        """Take the outcome of a walk; one that was cut short replaces nothing that was whole."""
        name, before = self._slot.server.name, self._known.get(kind)
        found.incomplete = walk.incomplete
        found.set_aside = [f"{what}" for what in walk.set_aside]
        if walk.incomplete and before is not None and not before.incomplete:
            why = f"server '{name}' did not list all its {kind}: {walk.incomplete}"
            self._failed[kind] = ServerProtocol(why, server=name)
            return
        found.items = [item for item in walk.items if kind != "tools" or self.allows(item[0])]
        self._keep(kind, found)

    def _keep(self, kind: str, found: Listing) -> None:
        before = self._known.get(kind)
        if before is None or [bytes(raw) for _, raw in before.items] != [bytes(raw) for _, raw in found.items]:
            self._revision += 1
        found.revision, found.fetched_at = self._revision, trio.current_time()
        found.names = dict(found.items)
        self._known[kind] = found
