"""What one upstream offers: tools, prompts, resources and templates, fetched once for all who ask.

One walk serves every caller. A list stays good as long as the server promised, until it says that the
list has changed, until a new incarnation, or for a while where the server does not say. A change is
fetched once, when it is announced, if anybody has ever asked for the list. When a walk fails, or is cut
short by a limit, the list before it is kept and marked stale. Lists outlive the daemon on a shelf.

Spec: list_changed of 2024-11-05 … 2026-07-28; caching hints of 2026-07-28.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import trio

from mcpd.config.model import Tools
from mcpd.errors import CallTimeout, McpdError, ServerProtocol
from mcpd.protocol.session import Session
from mcpd.timers import Timers
from mcpd.upstream.supervisor import Slot

from .book import Book
from .finder import Finder, Found
from .keeping import Keeping, Shelf
from .listing import KINDS, Listing, is_harmless, same, sift
from .policy import Policy, matches
from .walking import fetch

__all__ = ["KINDS", "Catalog", "Found", "Listing", "is_harmless", "matches"]

WALK_SECONDS = 30.0
# Of a list whose server never says that it has changed.
UNDECLARED_SECONDS = 60.0
_CAPABILITIES = frozenset(names.capability for names in KINDS.values())


class Catalog:
    """The lists of one slot.

    Attributes:
        on_change: called once whenever a list that somebody has been told about is another one now; by a
            task, outside of any batch.
        on_wanted: called with a kind of list when somebody asks for it for the first time.
        hold_back: takes tools off a list that have become others than they were.
        hears_changes: whether what a modern server notifies about a kind of list reaches us. A legacy
            server that declares `listChanged` is always heard.
        counts: what happened: notified, refetched, failed, searched.
        allows: whether the configuration lets a tool be seen and called.

    Args:
        slot: the upstream.
        start: runs a walk as a task of its own, so that no caller's leaving ends it for the others.
        policy: globs of tool names; applied to every list of tools.
        timers: for the pauses between refetches.
        shelf: where lists outlive the daemon, if anywhere.
        identity: names all that the lists may depend on, the credential included; None for nothing that
            may be kept.
    """

    def __init__(
        self,
        slot: Slot,
        start: Callable[[Callable[[], object]], None],
        policy: Tools,
        timers: Timers,
        shelf: Shelf | None = None,
        identity: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.on_change: Callable[[str, Listing], None] = lambda kind, listing: None
        self.on_wanted: Callable[[str], None] = lambda kind: None
        self.hold_back: Callable[[Listing], None] = lambda found: None
        self.hears_changes: Callable[[str], bool] = lambda kind: False
        self.counts: Counter[str] = Counter()
        self._slot, self._start, self._timers = slot, start, timers
        self._policy = Policy(policy)
        self._keeping = Keeping(self._policy, shelf, identity)
        self._books = {kind: Book() for kind in KINDS}
        self._finder = Finder(slot, start)
        self._tools: Listing | None = None
        self.allows = self._policy.allows

    @property
    def tools(self) -> Listing | None:
        """The tools as a run of the server listed them, fresh or not; what was on the shelf decides nothing."""
        return self._tools

    @property
    def wanted(self) -> frozenset[str]:
        """The kinds of list that somebody has asked for: whose changes are worth hearing of."""
        return frozenset(kind for kind, book in self._books.items() if book.asked)

    def failed(self, kind: str) -> bool:
        """Whether the last walk did not bring a list."""
        return self._books[kind].problem is not None

    def problem(self, kind: str) -> McpdError | None:
        """Return why the last walk did not bring a list."""
        return self._books[kind].problem

    def known(self, kind: str) -> Listing | None:
        """Return what is at hand, fresh or not, without asking anybody."""
        return self._books[kind].listing

    @property
    def revisions(self) -> dict[str, int]:
        """The latest revision of the tools, of the prompts, and of resources and templates together."""
        found = dict.fromkeys(_CAPABILITIES, 0)
        for kind, book in self._books.items():
            capability = KINDS[kind].capability
            found[capability] = max(found[capability], book.revision)
        return found

    def go_on_from(self, revisions: Mapping[str, int]) -> None:
        """Let no list have a lower revision than these: clients were told of them."""
        for kind, book in self._books.items():
            book.revision = max(book.revision, revisions[KINDS[kind].capability])
            if book.listing is not None:
                book.listing.revision = book.revision

    # -- what the server says --------------------------------------------------------------------

    def list_changed(self, capability: str) -> None:
        """Note that the server has changed its tools, prompts, or resources, which means the templates, too."""
        self.counts["notified"] += 1
        for kind, names in KINDS.items():
            if names.capability == capability:
                self.changed(kind)

    def changed(self, kind: str) -> None:
        """Note that a list has changed, or may have while nobody could hear of it."""
        book = self._books[kind]
        book.changes += 1
        if book.listing is not None:
            book.listing.fresh_until = 0.0
        if kind == "tools":
            self._finder.forget()
        self._refetch(kind)

    def on_ready(self, session: Session) -> None:
        """Fetch what has been asked for from an incarnation that has just become ready."""
        for kind, book in self._books.items():
            if book.listing is None or book.listing.incarnation != session.incarnation:
                self._refetch(kind)

    # -- asking ----------------------------------------------------------------------------------

    async def listing(self, kind: str, *, fresh: bool = False) -> tuple[Listing, bool]:
        """Return a list, and whether it is stale.

        While the server is not ready, a list that is at hand is answered at once. If it has not listed
        anything yet in this run of the daemon, it is started, so that the next answer is fresh.

        Raises:
            McpdError: There is no list, and none can be had.
        """
        book = self._books[kind]
        self._want(kind)
        try:
            answer = await self._listing(kind, book, fresh=fresh)
        except McpdError:
            book.told = True
            raise
        book.told = True  # who gave up waiting has been told nothing
        return answer

    async def at_hand(self, kind: str) -> bool:
        """Whether `listing` has an answer, fresh or not, without waiting for the server."""
        found = await self._recall(kind)
        return found is not None and (self._slot.session is None or self._good(kind, found))

    def promise(self, kind: str) -> None:
        """Note that somebody has been told that a list is still to come: when it is there, `on_change` says so."""
        self._books[kind].told = True
        self._want(kind)

    def _want(self, kind: str) -> None:
        if not self._books[kind].asked:
            self._books[kind].asked = True
            self.on_wanted(kind)

    async def _listing(self, kind: str, book: Book, *, fresh: bool) -> tuple[Listing, bool]:
        if not fresh and (found := await self._recall(kind)) is not None:
            if self._slot.session is None:
                if not found.incarnation and book.walk is None:
                    self._begin(kind)
                return found, True
            if self._good(kind, found):
                return found, False
        done = book.walk if book.walk is not None else self._begin(kind)
        await done.wait()
        if book.listing is None:
            raise book.problem or ServerProtocol(f"there is no list of {kind}", server=self._slot.server.name)
        return book.listing, book.problem is not None

    async def find(self, tool: str) -> Found:
        """Return the descriptor of one tool, asking the server for as little as it allows.

        What has been fetched in the last minute is good enough, and a tool that is not on the list is
        looked for once more.

        Raises:
            McpdError: The server cannot be had.
        """
        if not self.allows(tool):
            return Found(None)
        session, known = await self._slot.ready(), self._tools
        if known is not None and tool in known.names and self._recent("tools", known):
            return Found(known.names[tool])
        if known is not None and tool in known.held and self._recent("tools", known):
            return Found(known.held[tool])
        self.counts["searched"] += session.searches_tools
        if (found := await self._finder.find(tool, session)) is not None:
            return found
        before = self.known("tools")
        listing, stale = await self.listing("tools")
        if tool not in listing.names and tool not in listing.held and listing is before:
            listing, stale = await self.listing("tools", fresh=True)
        return Found(listing.names.get(tool) or listing.held.get(tool), not (stale or listing.incomplete or listing.set_aside))

    def _good(self, kind: str, found: Listing) -> bool:
        """Whether a list can be answered without a question."""
        session = self._slot.session
        if session is None or not self._unchanged(kind, found, session):
            return False
        now = trio.current_time()
        if found.fresh_until > now:
            return True
        if session.declares(KINDS[kind].capability, "listChanged"):
            return not session.modern or self.hears_changes(kind)
        return not session.modern and now - found.fetched_at < UNDECLARED_SECONDS

    def _recent(self, kind: str, found: Listing) -> bool:
        """Whether a list is good enough to read a descriptor off it."""
        session = self._slot.session
        if session is None or not self._unchanged(kind, found, session):
            return False
        return trio.current_time() - found.fetched_at < UNDECLARED_SECONDS or self._good(kind, found)

    def _unchanged(self, kind: str, found: Listing, session: Session) -> bool:
        return found.change == self._books[kind].changes and found.incarnation == session.incarnation

    # -- fetching --------------------------------------------------------------------------------

    def _refetch(self, kind: str) -> None:
        """Fetch a list again that somebody has asked for; now, or when the pause is over.

        While it is being fetched there is nothing to do: whoever does that looks again.
        """
        book = self._books[kind]
        if not book.asked or book.walk is not None or book.timer is not None or self._slot.session is None:
            return
        now = trio.current_time()
        left = book.pace.left(now)
        if left > 0:
            book.timer = self._timers.after(left, lambda: self._on_pause_over(kind))
        else:
            book.pace.began(now)
            self.counts["refetched"] += 1
            self._begin(kind, refetch=True)
            self._slot.wake()

    def _on_pause_over(self, kind: str) -> None:
        book, session = self._books[kind], self._slot.session
        book.timer = None
        if session is not None and (book.listing is None or not self._unchanged(kind, book.listing, session)):
            self._refetch(kind)

    def _begin(self, kind: str, *, refetch: bool = False) -> trio.Event:
        done = self._books[kind].walk = trio.Event()
        self._start(lambda: self._fetch(kind, done, refetch=refetch))
        return done

    async def _fetch(self, kind: str, done: trio.Event, *, refetch: bool) -> None:
        """Walk all pages and keep the outcome, whatever it is; then look whether it is old already."""
        book, name = self._books[kind], self._slot.server.name
        before, asked_at = book.revision, (book.changes, 0)
        try:
            await self._recall(kind)
            session = await self._slot.ready()
            asked_at = (book.changes, session.incarnation)
            with trio.move_on_after(WALK_SECONDS) as limit:
                found = await fetch(self._slot, kind, session)
            if limit.cancelled_caught:
                why = f"server '{name}' did not list its {kind} within {WALK_SECONDS:g} s"
                raise CallTimeout(why, server=name)
            found.change = asked_at[0]
            self._take(kind, book, found)
            book.problem = None
        except McpdError as problem:
            self.counts["failed"] += 1
            book.problem = problem
        finally:
            book.walk = None
            done.set()
        if refetch:
            book.pace.ended(different=book.revision != before)
        running = self._slot.session
        if running is not None and (book.changes, running.incarnation) != asked_at:
            self._refetch(kind)

    def _take(self, kind: str, book: Book, found: Listing) -> None:
        """Put a list in the place of the one before.

        Raises:
            ServerProtocol: It was cut short, and the one before was not.
        """
        name, before = self._slot.server.name, book.listing
        if found.incomplete and before is not None and not before.incomplete:
            raise ServerProtocol(f"server '{name}' did not list all its {kind}: {found.incomplete}", server=name)
        sift(kind, found, self._policy.seen(kind, found.whole), self.hold_back)
        found.fetched_at = trio.current_time()
        different = before is None or not same(before.items, found.items)
        if before is None or different:
            book.revision += 1
        else:  # the same bytes need not be there twice
            found.items, found.names, found.tagged = before.items, before.names, before.tagged
        found.revision = book.revision
        book.listing = found
        if kind == "tools":
            self._tools = found
        if not found.incomplete and (before is None or different or not same(before.whole, found.whole)):
            self._keeping.keep(kind, found)
        if different and book.told:
            self.on_change(kind, found)

    def review(self) -> None:
        """Look again at which tools are held back; whoever has been told the list hears if that is another one now."""
        if (before := (book := self._books["tools"]).listing) is None:
            return
        found = replace(before, revision=book.revision + 1, tagged=None, index=None)
        sift("tools", found, self._policy.seen("tools", before.whole), self.hold_back)
        if not same(found.items, before.items):
            book.revision, book.listing = found.revision, found
            self._tools = found if self._tools is before else self._tools
            if book.told:
                self.on_change("tools", found)

    async def _recall(self, kind: str) -> Listing | None:
        """Return what is at hand; the first time, look whether an earlier daemon has left something."""
        book = self._books[kind]
        kept = await self._keeping.recall(kind)
        if kept is not None:
            sift(kind, kept, kept.items, self.hold_back)
            kept.revision = book.revision = max(book.revision, kept.revision)
            if book.listing is None:
                book.listing = kept
        return book.listing
