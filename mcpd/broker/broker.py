"""The broker: finds the upstream that a request is for, and sends it on its way; knows no sockets."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable

import msgspec
import trio
from msgspec import Raw

from mcpd.config.diff import diff
from mcpd.config.model import Config, Problem, Server
from mcpd.errors import Denied, McpdError, Misconfigured, Overloaded, ShuttingDown, Stopping, UnknownServer, UnknownTool
from mcpd.protocol import jsonrpc
from mcpd.upstream.around import Surroundings
from mcpd.upstream.supervisor import Slot

from .call import Call, Client, Request
from .catalog import Catalog, is_harmless
from .keeping import Shelf, identity_of
from .limits import Admission
from .results import ResultStore

# A queue that is full empties at the pace of the upstream.
OVERLOADED_RETRY_SECONDS = 1.0


# What servers say to a call of a tool that they do not have.
_NO_SUCH_TOOL = (jsonrpc.INVALID_PARAMS, jsonrpc.METHOD_NOT_FOUND)
# An error must not be held back for long to be explained better.
EXPLAIN_SECONDS = 2.0


class Place:
    """One configured upstream with all that belongs to it.

    Attributes:
        clients: who has used it and is still connected.
        served: how many clients ever have.
    """

    def __init__(
        self, server: Server, around: Surroundings, store: ResultStore, paused: Collection[Hashable], shelf: Shelf | None
    ) -> None:
        self.server, self.timers, self.store, self._around = server, around.timers, store, around
        self.slot = Slot(server, around)
        self.admission: Admission[Call] = Admission(server.limits.in_flight, paused=paused)
        start, expand = functools.partial(_start, around.nursery), functools.partial(around.expanded, server)
        identity = functools.partial(identity_of, server, expand)
        self.catalog = Catalog(self.slot, start, server.tools, around.timers, shelf, identity)
        self.clients: set[Hashable] = set()
        self.served = 0
        self._freed: list[Hashable] = []
        self._passing = False
        self.slot.listener = self.catalog.on_notification

    def release(self, key: Hashable) -> None:
        """Give a client's place back, and let those in who can go now.

        Whoever is let in may fail at once and give his place back, too: that is worked off here, one by
        one, and not deeper and deeper.
        """
        self.slot.idle.use()
        self._freed.append(key)
        if self._passing:
            return
        self._passing = True
        try:
            while self._freed:
                following = self.admission.release(self._freed.pop())
                if following is not None:
                    following.go()
        finally:
            self._passing = False

    def use(self, key: Hashable) -> None:
        """Count a client that uses it for the first time."""
        self.clients.add(key)
        self.served += 1

    def refusal(self, call: Call, error: Raw) -> bytes | None:
        """Return a better error than the upstream's for a tool that it does not have."""
        listing = self.catalog.tools
        if listing is None or call.tool in listing.names or jsonrpc.read_error(error).code not in _NO_SUCH_TOOL:
            return None
        return msgspec.json.encode(self.unknown_tool(call.tool).to_error())

    def refused(self, call: Call) -> None:
        """Retire whoever refused a call, where the entry says so."""
        one = self.slot.current
        if self.server.on_rpc_error == "retire" and one is not None and one.number == call.incarnation:
            self.slot.retire(one)

    def may_repeat(self, tool: str) -> bool:
        """Whether a lost call may be sent again: the entry says so, and the server that it does no harm."""
        if self.server.retry != "transport" or self.catalog.tools is None:
            return False
        descriptor = self.catalog.tools.names.get(tool)
        return descriptor is not None and is_harmless(descriptor)

    def explains(self, call: Call, error: Raw) -> bool:
        """Whether the list has to be fetched first to say what an error means; the call hears of it then."""
        if self.catalog.tools is not None or jsonrpc.read_error(error).code not in _NO_SUCH_TOOL:
            return False
        self._around.mover.leave = True
        self._around.nursery.start_soon(self._explain, call, error)
        return True

    async def _explain(self, call: Call, error: Raw) -> None:
        with trio.move_on_after(EXPLAIN_SECONDS):
            await trio.lowlevel.checkpoint()
            with contextlib.suppress(McpdError):
                await self.catalog.listing("tools")
        self._around.mover.batch(lambda: call.refused(error, self.refusal(call, error)))

    def denied(self, tool: str) -> Denied:
        """Return the error for a tool that the entry denies."""
        name = self.server.name
        why = f"tool '{tool[:200]}' of server '{name}' is denied by its entry"
        return Denied(why, server=name, may_have_run=False)

    def unknown_tool(self, tool: str) -> UnknownTool:
        """Return the error for a tool that is not listed, with the names that are near."""
        listing, name = self.catalog.known("tools"), self.server.name
        near = nearest(tool, [] if listing is None else listing.names)
        return UnknownTool(
            f"server '{name}' has no tool '{tool[:200]}'",
            server=name,
            hint=f"did you mean {', '.join(near)}?" if near else f"mcpd tools {name}",
            may_have_run=False,
            near=near,
        )


def _start(nursery: trio.Nursery, task: Callable[[], Awaitable[object]]) -> None:
    nursery.start_soon(task)


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return up to three names that may have been meant."""
    from difflib import get_close_matches

    return get_close_matches(word, list(known), 3, 0.5)


class Broker:
    """All upstreams of one configuration.

    Attributes:
        config: what is in force.
        places: by name, in the order of the configuration.
        followers: get the name of a server and a line of its stderr.
    """

    def __init__(self, config: Config, around: Surroundings, store: ResultStore, shelf: Shelf | None = None) -> None:
        self._around, self._store, self._shelf, self.followers = around, store, shelf, around.followers
        self.config = config
        self.places: dict[str, Place] = {}
        self._leaving: set[Place] = set()
        self._paused: set[Hashable] = set()
        self._closing = False
        for server in config.servers.values():
            self._add(server)

    def _add(self, server: Server) -> None:
        if server.enabled and server.transport == "stdio":
            self.places[server.name] = Place(server, self._around, self._store, self._paused, self._shelf)

    # -- finding ---------------------------------------------------------------------------------

    def resolve(self, name: str) -> Place:
        """Return the upstream of that name.

        Raises:
            UnknownServer: There is none; near names are in the hint.
            Denied: It is disabled.
            Misconfigured: Its entry, or the whole file, cannot be used.
        """
        place = self.places.get(name)
        if place is None:
            raise self.why_not(name)
        return place

    def why_not(self, name: str) -> McpdError:
        """Return why there is no upstream of that name."""
        config = self.config
        if name in config.wrong:
            return config.wrong[name].error()
        if name in config.servers:
            if config.servers[name].enabled:
                return _no_remotes(config, name)
            where = config.file or config.path
            return Denied(f"server '{name}' is disabled in {where}", server=name, hint="set enabled = true there")
        if config.unusable:
            problem = next(one for one in config.problems if one.key is None and not one.warning)
            return Misconfigured(problem.sentence, hint=problem.hint, file=problem.file)
        near = nearest(name, self.places)
        hint = f"did you mean {', '.join(near)}?" if near else "mcpd ls"
        if not config.servers and not config.wrong:
            hint = f"write a [servers.NAME] into {config.path}"
        return UnknownServer(f"there is no server '{name[:200]}'", server=name[:200], hint=hint, near=near)

    # -- calling ---------------------------------------------------------------------------------

    def call(self, client: Client, request_id: bytes, request: Request) -> Call:
        """Send a tool call on its way; its outcome goes to the client.

        Raises:
            McpdError: It cannot even begin.
        """
        place = self.places.get(request.server)
        if place is None:
            raise self.why_not(request.server)
        if self._closing:
            raise ShuttingDown("the daemon is stopping", server=request.server, may_have_run=False)
        tool, catalog = request.tool, place.catalog
        if not catalog.allows(tool):
            raise place.denied(tool)
        if client.key not in place.clients:
            place.use(client.key)
        call = Call(place, client, request_id, request, self._around.mover.time())
        listing = catalog.tools
        if listing is None or tool in listing.names or listing.incomplete or listing.set_aside:
            self._begin(place, call)
        else:
            self._around.mover.leave = True
            self._around.nursery.start_soon(self._look_again, place, call)
        return call

    def _begin(self, place: Place, call: Call) -> None:
        if not call.begin():
            name = place.server.name
            call.on_failure(Overloaded(
                f"too many calls of this client wait for server '{name}'",
                server=name, retry_after_seconds=OVERLOADED_RETRY_SECONDS, may_have_run=False,
            ))  # fmt: skip

    async def _look_again(self, place: Place, call: Call) -> None:
        """Look for a tool once more before one that is not on the list is refused."""
        known = True
        with contextlib.suppress(McpdError):
            found = await place.catalog.find(call.tool)
            known = found.descriptor is not None or not found.certain

        def work() -> None:
            if call.over:
                return
            if known:
                self._begin(place, call)
            else:
                call.on_failure(place.unknown_tool(call.tool))

        self._around.mover.batch(work)

    # -- the life of all -------------------------------------------------------------------------

    def pause(self, key: Hashable) -> None:
        """Let no more calls of a client go: it does not read its answers. Idempotent."""
        self._paused.add(key)

    def resume(self, key: Hashable) -> None:
        """Let the calls of a client go again. Idempotent."""
        if key in self._paused:
            self._paused.discard(key)
            for place in (*self.places.values(), *self._leaving):
                while (call := place.admission.next()) is not None:
                    call.go()

    def forget(self, key: Hashable) -> None:
        """Forget a client that has left."""
        self._paused.discard(key)
        for place in self.places.values():
            place.clients.discard(key)

    def prewarm(self, names: Collection[str] | None = None) -> None:
        """Start what is to be ready before it is asked for, or only these; failures show in the status only."""
        for name, place in self.places.items():
            if place.server.prewarm and (names is None or name in names):
                self._around.nursery.start_soon(_quietly, place.slot)

    def reload(self, config: Config) -> dict[str, list[str]]:
        """Put another configuration in force; upstreams that did not change are left alone.

        A file that cannot be used changes nothing.
        """
        if self._closing:
            return {"added": [], "removed": [], "changed": [], "problems": ["the daemon is stopping"]}
        if config.unusable:
            return {"added": [], "removed": [], "changed": [], "problems": [str(one) for one in config.problems]}
        added, removed, changed = diff(self.config, config)
        for name in (*removed, *changed):
            if (place := self.places.pop(name, None)) is not None:
                self._retire(place)
        self.config, before = config, self.places
        self.places = {}
        for name, server in config.servers.items():
            if name in before:
                self.places[name] = before[name]
            else:
                self._add(server)
        self.prewarm({*added, *changed})
        problems = [str(one) for one in config.problems]
        return {"added": list(added), "removed": list(removed), "changed": list(changed), "problems": problems}

    def _retire(self, place: Place) -> None:
        name = place.server.name
        self._leaving.add(place)
        place.slot.close(Stopping(f"the entry of server '{name}' has changed", server=name, may_have_run=False))
        self._around.nursery.start_soon(self._bury, place)

    async def _bury(self, place: Place) -> None:
        await place.slot.closed()
        self._leaving.discard(place)

    def close(self) -> None:
        """Begin the last stop: everything drains and ends, nothing is accepted any more. Idempotent."""
        self._closing = True
        for place in (*self.places.values(), *self._leaving):
            name = place.server.name
            problem = ShuttingDown("the daemon is stopping", server=name, may_have_run=False)
            place.slot.close(problem, min(place.server.stop.drain_seconds, self.config.daemon.drain_seconds))

    async def closed(self) -> None:
        """Wait until nothing of any upstream is left."""
        for place in (*self.places.values(), *self._leaving):
            await place.slot.closed()

    def kill(self) -> None:
        """End all processes now."""
        for place in (*self.places.values(), *self._leaving):
            place.slot.kill()


async def _quietly(slot: Slot) -> None:
    try:
        await slot.ready()
    except McpdError:
        return


def _no_remotes(config: Config, name: str) -> Misconfigured:
    problem = Problem(
        file=config.file or config.path,
        server=name,
        key=f"servers.{name}.url",
        message="remote servers are not available in this version",
    )
    return problem.error()
