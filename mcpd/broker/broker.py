"""The broker: finds the upstream that a request is for, and sends it on its way; knows no sockets."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator
from functools import partial
from typing import TypeVar

import trio

from mcpd.config.age import is_outdated
from mcpd.config.diff import diff
from mcpd.config.model import Config, Server
from mcpd.errors import Denied, McpdError, Misconfigured, ShuttingDown, Stopping, UnknownServer
from mcpd.upstream.around import Surroundings

from .approvals import Approvals
from .audience import Audience
from .call import Call
from .errands import Errands
from .explaining import nearest
from .keeping import Shelf
from .parties import Client, Guest
from .pins import Pins
from .place import Place
from .requests import Request, ToolRequest
from .results import ResultStore
from .scopes import Seeker
from .upstream import Upstream

T = TypeVar("T")


class Broker:
    """All upstreams of one configuration.

    Attributes:
        config: what is in force.
        upstreams: by name, in the order of the configuration.
        followers: get the name of a server, the project of its copy, and a line of its stderr.
        events: what has happened lately.
        audience: who hears when lists have changed.
        errands: what is still being done for clients that have been answered.
        approvals: calls that wait for a nod.
    """

    def __init__(
        self, config: Config, around: Surroundings, store: ResultStore, shelf: Shelf | None = None, pins: Pins | None = None
    ) -> None:
        self._around, self._store, self._shelf = around, store, shelf
        self.followers, self.events = around.followers, around.events
        self.config, self.audience, self.errands = config, Audience(), Errands(around)
        self.upstreams: dict[str, Upstream] = {}
        self._leaving: set[Place] = set()
        self._paused: set[Hashable] = set()
        self._closing = False
        self.approvals = Approvals(
            around, pins or Pins(), self.errands, look=self.at, go=self._go_on,
            places=lambda: self.places, seconds=lambda: self.config.daemon.approval_seconds,
        )  # fmt: skip
        for server in config.servers.values():
            self._add(server)

    def _add(self, server: Server) -> None:
        if server.enabled:
            self.upstreams[server.name] = Upstream(
                server, self._around, self._store, self._paused, self._bury_soon, self._shelf, self.audience
            )
            self.upstreams[server.name].hold_back = self.approvals.hold_back

    @property
    def places(self) -> Iterator[Place]:
        """All copies of all upstreams, in the order of the configuration."""
        for upstream in self.upstreams.values():
            yield from upstream.places.values()

    # -- finding ---------------------------------------------------------------------------------

    def upstream(self, name: str) -> Upstream:
        """Return the upstream of that name.

        Raises:
            UnknownServer: There is none; near names are in the hint.
            Denied: It is disabled.
            Misconfigured: Its entry, or the whole file, cannot be used.
        """
        upstream = self.upstreams.get(name)
        if upstream is None:
            raise self.why_not(name)
        return upstream

    def resolve(self, name: str, seeker: Seeker) -> Place:
        """Return the copy of an upstream that is a client's; raises as `upstream`."""
        return self.upstream(name).place_for(seeker)

    async def at(self, name: str, guest: Guest, work: Callable[[Place], Awaitable[T]]) -> T:
        """Do something at the copy that is a client's, and once more if that turns out to be another one.

        Where only a start can tell which copy that is, it is started.

        Raises:
            McpdError: There is none, it could not be started, or the work has failed.
        """
        while True:
            # Who has left meanwhile must not be noted anywhere, nor get a copy: not at first, and not after a wait.
            await trio.lowlevel.checkpoint_if_cancelled()
            place = self.resolve(name, guest.seeker)
            place.meet(guest)
            try:
                if not self.upstream(name).settled(place):
                    await place.slot.ready()
                    continue
                done, problem = await work(place), None
            except McpdError as one:
                problem = one
            await trio.lowlevel.checkpoint_if_cancelled()
            if self.resolve(name, guest.seeker) is place:
                if problem is not None:
                    raise problem
                return done

    async def ready(self, name: str, guest: Guest) -> Place:
        """Return the copy that is a client's when it is ready; raises as `at`."""

        async def started(place: Place) -> Place:
            await place.slot.ready()
            return place

        return await self.at(name, guest, started)

    def why_not(self, name: str) -> McpdError:
        """Return why there is no upstream of that name."""
        config = self.config
        if name in config.wrong:
            return config.wrong[name].error()
        if name in config.servers:
            where = config.file or config.path
            return Denied(f"server '{name}' is disabled in {where}", server=name, hint="set enabled = true there")
        if config.unusable:
            problem = next(one for one in config.problems if one.key is None and not one.warning)
            return Misconfigured(problem.sentence, hint=problem.hint, file=problem.file)
        near = nearest(name, self.upstreams)
        hint = f"did you mean {', '.join(near)}?" if near else "mcpd ls"
        if not config.servers and not config.wrong:
            hint = f"write a [servers.NAME] into {config.path}"
        if is_outdated(config):
            hint = "the configuration has changed since it was read: mcpd reload"
        return UnknownServer(f"there is no server '{name[:200]}'", server=name[:200], hint=hint, near=near)

    # -- calling ---------------------------------------------------------------------------------

    def call(self, client: Client, request_id: bytes, request: Request) -> Call:
        """Send a request on its way; its outcome goes to the client.

        Raises:
            McpdError: It cannot even begin.
        """
        upstream = self.upstreams.get(request.server)
        if upstream is None:
            raise self.why_not(request.server)
        if self._closing:
            raise ShuttingDown("the daemon is stopping", server=request.server, may_have_run=False)
        seeker = client.seeker
        place = upstream.place_for(seeker)
        listing, what = None, request.what
        if isinstance(request, ToolRequest):
            catalog = place.catalog
            if not catalog.allows(what):
                raise place.denied(what)
            listing = catalog.tools
        mode = None
        if upstream.guarded or seeker.policy is not None:
            mode = self.approvals.mode(place.server, client, request)
        if client.key not in place.clients:
            place.use(client)
        call = Call(place, client, request_id, request, self._around.mover.time())
        if mode is not None:
            self.approvals.take(place, call, mode)
        elif listing is None or what in listing.names or listing.incomplete or listing.set_aside:
            self._begin(place, call)
        else:
            self._around.mover.leave = True
            self._around.nursery.start_soon(self._look_again, place, call)
        return call

    def set_level(self, client: Client) -> list[Place]:
        """Let a client hear what the servers log that it uses, from its own level on; return where it does."""
        return [place for upstream in self.upstreams.values() for place in upstream.set_level(client)]

    def _go_on(self, call: Call) -> None:
        """Send a call that was held to the copy that is its client's by now; its own time begins."""
        try:
            place = self.resolve(call.request.server, call.client.seeker)
        except McpdError as problem:
            call.on_failure(problem)
            return
        if call.client.key not in place.clients:
            place.use(call.client)
        call.let_go()
        if not call.move(place):
            call.on_failure(place.overloaded())

    def refuse_held(self, name: str) -> None:
        """Refuse the calls that wait for a nod, because their server is being stopped."""
        problem = Stopping(f"server '{name}' is being stopped")
        self._around.mover.batch(lambda: self.approvals.end(problem, name))

    def _begin(self, place: Place, call: Call) -> None:
        if not call.begin():
            call.on_failure(place.overloaded())

    async def _look_again(self, place: Place, call: Call) -> None:
        """Look for a tool once more before one that is not on the list is refused."""
        known = True
        with contextlib.suppress(McpdError):
            found = await place.catalog.find(call.what)
            known = found.descriptor is not None or not found.certain

        def work() -> None:
            if call.over:
                return
            if known:
                self._begin(place, call)
            else:
                call.on_failure(place.unknown_tool(call.what, call.client))

        self._around.mover.batch(work)

    # -- the life of all -------------------------------------------------------------------------

    def pause(self, key: Hashable) -> None:
        """Let no more calls of a client go: it does not read its answers. Idempotent."""
        if key not in self._paused:
            self._paused.add(key)
            self._look()

    def resume(self, key: Hashable) -> None:
        """Let the calls of a client go again. Idempotent."""
        if key in self._paused:
            self._paused.discard(key)
            self._look()

    def _look(self) -> None:
        """Let calls go that may, now that somebody may not, or may again."""
        for place in (*self.places, *self._leaving):
            place.passing.look()

    def forget(self, key: Hashable) -> None:
        """Forget a client that has left."""
        self._paused.discard(key)
        self.errands.end(key)
        self.audience.forget(key)
        for upstream in self.upstreams.values():
            upstream.forget(key)

    def turn(self, client: Client) -> None:
        """Forget what a client had with the project that it has turned away from."""
        self.errands.end(client.key)
        for upstream in self.upstreams.values():
            upstream.turn(client)

    def prewarm(self, names: Collection[str] | None = None) -> None:
        """Start what is to be ready before it is asked for, or only these; failures show in the status only.

        What each client has for itself is nobody's before there is a client.
        """
        for name, upstream in self.upstreams.items():
            if upstream.server.prewarm and upstream.kind != "client" and (names is None or name in names):
                self._around.nursery.start_soon(upstream.main().run)

    def reload(self, config: Config) -> dict[str, list[str]]:
        """Put another configuration in force; upstreams that did not change are left alone.

        A file that cannot be used changes nothing.
        """
        if self._closing:
            return {"added": [], "removed": [], "changed": [], "problems": ["the daemon is stopping"]}
        if config.unusable:
            return {"added": [], "removed": [], "changed": [], "problems": [str(one) for one in config.problems]}
        added, removed, changed = diff(self.config, config)
        self.config, before = config, self.upstreams
        self.upstreams = {}
        for name, server in config.servers.items():
            if name in before and name not in changed:
                self.upstreams[name] = before[name]
            else:
                self._add(server)
        for name in {**before, **self.upstreams}:
            if before.get(name) is not self.upstreams.get(name):
                self._around.mover.batch(partial(self._replace, name, before.get(name)))
        self.prewarm({*added, *changed})
        problems = [str(one) for one in config.problems]
        return {"added": list(added), "removed": list(removed), "changed": list(changed), "problems": problems}

    def _replace(self, name: str, before: Upstream | None) -> None:
        """Let clients go on with the upstream that has the name now, if there is one, and end the one before."""
        self.audience.replaced(name, {} if before is None else before.revisions)
        if before is None:
            return
        if (upstream := self.upstreams.get(name)) is not None:
            upstream.succeed(before)
        why = f"the entry of server '{name}' has changed"
        self.approvals.end(Stopping(why), name)
        for place in list(before.places.values()):
            before.retire(place, Stopping(why, server=name, may_have_run=False))

    def _bury_soon(self, place: Place) -> None:
        """Keep a copy in sight that is not used any more, until nothing of it is left."""
        self._leaving.add(place)
        self._around.mover.leave = True
        self._around.nursery.start_soon(self._bury, place)

    async def _bury(self, place: Place) -> None:
        await place.slot.closed()
        self._leaving.discard(place)

    def close(self) -> None:
        """Begin the last stop: everything drains and ends, nothing is accepted any more. Idempotent."""
        self._closing = True
        self.approvals.end(ShuttingDown("the daemon is stopping"))
        for place in (*self.places, *self._leaving):
            name = place.server.name
            problem = ShuttingDown("the daemon is stopping", server=name, may_have_run=False)
            place.close(problem, min(place.server.stop.drain_seconds, self.config.daemon.drain_seconds))

    async def closed(self) -> None:
        """Wait until nothing of any upstream is left."""
        for place in (*self.places, *self._leaving):
            await place.slot.closed()

    def kill(self) -> None:
        """End all processes now."""
        for place in (*self.places, *self._leaving):
            place.slot.kill()
