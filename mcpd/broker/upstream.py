"""One configured upstream and its places: a copy for each who must not share with the others.

What era an upstream speaks decides who may share it, and only a start can tell. Until then all who want
it wait at one place; when the session is agreed, whoever does not belong there goes to a place of his own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from mcpd.config.model import Server
from mcpd.errors import McpdError, Stopping
from mcpd.upstream.around import Surroundings
from mcpd.upstream.eras import known_era
from mcpd.upstream.exchange import Exchange

from .audience import Audience
from .call import Call
from .home import Home
from .keeping import Shelf
from .listing import Listing
from .parties import Client, Guest
from .place import Place
from .results import ResultStore
from .scopes import NOBODY, UNDECIDED, Scope, Seeker, follows_project, kind_of, names_project, scope_of

# Of copies that have stopped, only so many are remembered.
MAX_STOPPED = 32
# How often an upstream may turn out to be something else than it was.
MAX_TURNS = 3


class Upstream(Home):
    """One configured upstream.

    Attributes:
        server: its entry.
        places: its copies, by who shares them.
        leaving: copies that are not used any more, until nothing of them is left.
        guarded: calls of it may need a nod, and a tool that has become another one is held back.
        hold_back: does so for a list of one of its copies.
    """

    def __init__(
        self,
        server: Server,
        around: Surroundings,
        store: ResultStore,
        paused: Collection[Hashable],
        leave: Callable[[Place], None],
        shelf: Shelf | None,
        audience: Audience,
    ) -> None:
        self.server, self._around, self._store, self._paused, self._leave = server, around, store, paused, leave
        self._shelf, self._audience = shelf, audience
        self.places: dict[Scope, Place] = {}
        self.guarded = server.approve != "auto" or server.project is not None
        self.hold_back: Callable[[Place, Listing], None] = lambda place, found: None
        self._kind = kind_of(server, known_era(around.eras, server))
        self._turns = 0
        self._levels: dict[Hashable, tuple[Client, str | None]] = {}

    @property
    def kind(self) -> str:
        """By whom it is shared: user, project, client; auto while that is not known."""
        return self._kind

    @property
    def names_project(self) -> bool:
        """Whether its entry makes it another one in each project."""
        return names_project(self.server)

    def place_for(self, seeker: Seeker) -> Place:
        """Return the place of one who asks; it is made if there is none."""
        scope = scope_of(self._kind, seeker)
        place = self.places.get(scope)
        if place is None:
            return self._open(scope, seeker.project)
        if scope is UNDECIDED and place.is_stopped:
            place.move(seeker.project)  # whoever starts it finds out in his own folder
        return place

    def _open(self, scope: Scope, project: str | None) -> Place:
        if scope.kind == "user":
            project = None
        place = Place(self.server, scope, project, self._around, self._store, self._paused, self._shelf)
        place.home = self
        place.catalog.hold_back = lambda found: self._hold_back(place, found)
        place.catalog.go_on_from(self._audience.told(self.server.name))
        self.places[scope] = place
        self._prune()
        return place

    def _hold_back(self, place: Place, found: Listing) -> None:
        if self.guarded:
            self.hold_back(place, found)

    def main(self) -> Place:
        """Return the place to show and to start when nobody in particular asks."""
        return next(iter(self.places.values()), None) or self.place_for(NOBODY)

    def settled(self, place: Place) -> bool:
        """Whether a place is one that can be used; else the era has to be known first."""
        return place.scope.kind != "auto" and self.places.get(place.scope) is place

    # -- who belongs where -----------------------------------------------------------------------

    def learn(self, place: Place, era: str) -> None:
        """Take note of what a copy speaks, and let it be shared by whom that allows."""
        kind, before, places = kind_of(self.server, era), self._kind, self.places.copy()
        if kind != before:
            # An upstream that speaks now this, now that, is not shared by all.
            self._turns += 1
            self._kind = kind if self._turns <= MAX_TURNS else "project"
        self._settle(place)
        if before not in (self._kind, "auto"):
            self._tell_of_others(before, places)

    def _settle(self, place: Place) -> None:
        """Let a copy be where it belongs, if there is room for it."""
        wanted = self._wanted(place)
        if wanted not in self.places and self.places.get(place.scope) is place and not self._is_in_the_way(place, wanted):
            del self.places[place.scope]
            place.scope = wanted
            if wanted.kind == "user":
                place.move(None)  # it was begun for one's, and its folder is the same for all
            self.places[wanted] = place

    def _wanted(self, place: Place) -> Scope:
        return place.scope if place.scope.kind == "client" else scope_of(self._kind, Seeker(None, place.project))

    def _is_in_the_way(self, place: Place, wanted: Scope) -> bool:
        """Whether it runs in one project's folder, and everybody is to share it."""
        return wanted.kind == "user" and place.project is not None and follows_project(self.server)

    def sort_out(self, place: Place) -> None:
        """Send calls that do not belong to a copy where they do; a copy that is nobody's ends."""
        if self.places.get(place.scope) is not place:
            return
        for each in list(self.places.values()):  # what one of them speaks may have changed whose the others are
            for guest in each.present:
                if not self._belongs(guest, each):
                    self._take_over(guest, each)
        if self._wanted(place) == place.scope:
            self._send_away(place, lambda call: not self._belongs(call.client, place))
            for guest in place.present:
                if not self._belongs(guest, place):
                    place.forget(guest.key)
            for client in (*place.clients.values(), *(client for client, _ in self._levels.values())):
                if self._belongs(client, place):
                    place.hear(client)
        else:
            self._abandon(place)

    def _belongs(self, client: Guest, place: Place) -> bool:
        return scope_of(self._kind, client.seeker) == place.scope

    def _abandon(self, place: Place) -> None:
        del self.places[place.scope]
        self._send_away(place, lambda call: True)
        self.retire(place, Stopping(f"server '{place.name}' starts again for all", server=place.name))

    def retire(self, place: Place, problem: McpdError) -> None:
        """Let a place drain and end."""
        self.places = {scope: one for scope, one in self.places.items() if one is not place}
        self._leave(place)
        place.close(problem)

    def _send_away(self, place: Place, chosen: Callable[[Call], bool]) -> None:
        """Send calls that have not been sent yet to the places where they belong."""

        def leaves(exchange: Exchange) -> bool:
            return isinstance(exchange, Call) and chosen(exchange)

        queued = place.admission.evict(chosen)  # first, or those who leave would let them in
        placed = [one for one in place.slot.take_waiting(leaves) if isinstance(one, Call)]
        for call in (*placed, *queued):
            there = self.place_for(call.client.seeker)
            if call.client.key not in there.clients:
                there.use(call.client)
            if call.client.key in place.clients and there is not place:
                place.forget(call.client.key)
            if not call.move(there):
                call.on_failure(there.overloaded())
        place.passing.look()  # those who stay may have waited for one of them

    # -- the log ---------------------------------------------------------------------------------

    def level(self, client: Client, level: str | None) -> list[Place]:
        """Let a client hear what this server logs from a level on, or nothing, whichever copy is its own.

        Returns:
            Where it does so from now on; nowhere yet if only a start can tell which copy that is.
        """
        self._levels[client.key] = (client, level)
        if scope_of(self._kind, client.seeker) is UNDECIDED:
            return []
        place = self.place_for(client.seeker)
        place.hear(client)
        return [place]

    def set_level(self, client: Client) -> list[Place]:
        """Let a client hear what it wants to hear of all servers; it has said that last. Returns as `level`.

        That is of those that it uses or has been shown, since an MCP client says so before its first call.
        """
        self._levels.pop(client.key, None)
        places = [place for place in self.places.values() if any(one.key == client.key for one in place.present)]
        for place in places:
            place.hear(client)
        return places

    def level_of(self, client: Client) -> str | None:
        """Return from which level on a client wants to hear the log."""
        found = self._levels.get(client.key)
        return client.log_level if found is None else found[1]

    # -- what clients hear -----------------------------------------------------------------------

    def hearers(self, place: Place, capability: str) -> Sequence[Guest]:
        """Return who is to hear that the lists of a copy have changed: whoever has asked for them and shares it."""
        if self.places.get(place.scope) is not place:
            return ()
        guests = self._audience.of(self.server.name, capability)
        return [guest for guest in guests if self._belongs(guest, place)]

    def _tell_of_others(self, before: str, places: Mapping[Scope, Place]) -> None:
        """Tell those who have another copy now than when it was shared as before that its lists are others."""

        def concerns(guest: Guest) -> bool:
            now = self.places.get(scope_of(self._kind, guest.seeker))
            return places.get(scope_of(before, guest.seeker)) is not now

        name = self.server.name
        self._audience.replaced(name, self.revisions, concerns)
        for place in self.places.values():
            place.catalog.go_on_from(self._audience.told(name))

    @property
    def revisions(self) -> dict[str, int]:
        """The latest revision of the tools, prompts and resources of any copy."""
        found: dict[str, int] = {}
        for place in self.places.values():
            for capability, revision in place.catalog.revisions.items():
                found[capability] = max(found.get(capability, 0), revision)
        return found

    def succeed(self, before: Upstream) -> None:
        """Go on for one of the same name whose entry was another one."""
        for client, level in before._levels.values():
            self.level(client, level)
        for place in list(before.places.values()):
            for guest in place.present:
                self._take_over(guest, place)

    def _take_over(self, guest: Guest, before: Place) -> None:
        """Let a client hear of its resources from the copy that is its own now, which runs for that if the other did."""
        if not (uris := before.interests.leave(guest.key)):
            return
        place = self.place_for(guest.seeker)
        place.meet(guest)
        place.interests.take_over(guest, uris)
        if not before.is_stopped:
            self._around.mover.leave = True
            self._around.nursery.start_soon(place.run)

    # -- the end of places -----------------------------------------------------------------------

    def forget(self, key: Hashable) -> None:
        """Forget a client that has left; what it had alone ends."""
        self._levels.pop(key, None)
        for place in list(self.places.values()):
            place.forget(key)
            if place.scope == Scope("client", key):
                self.retire(place, Stopping(f"the client of server '{place.name}' has left", server=place.name))

    def turn(self, client: Client) -> None:
        """Forget what a client had with a project, and end what it had alone there; what all share stays."""
        seeker = client.seeker
        for place in list(self.places.values()):
            if place.scope.kind == "project":
                place.forget(client.key)
            elif place.scope == Scope("client", client.key) and not (
                self._belongs(client, place) and place.project == seeker.project
            ):
                self.retire(place, Stopping(f"the client of server '{place.name}' has turned away", server=place.name))
        if client.key in self._levels:
            self.level(*self._levels[client.key])
        if self._kind != "user":
            self._audience.turn(client.key, self.server.name)

    def _prune(self) -> None:
        """Forget places of projects that nobody uses and that have stopped, but for the last ones."""
        idle = [one for one in self.places.values() if one.is_stopped and not one.clients and not one.is_wanted]
        for place in idle[:-MAX_STOPPED]:
            self.retire(place, Stopping(f"server '{place.name}' is not in use", server=place.name))
