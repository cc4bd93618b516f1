"""`mcpd/cli`: `mcpd call` and `mcpd tools`, parsed by schema and rendered here.

A client that has to answer in twenty milliseconds sends the words as they were typed and gets exit
status, stdout and stderr back. Everything that goes wrong with the command becomes that, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import msgspec
import trio
from msgspec import Raw, Struct

from mcpd.broker.asking import Question
from mcpd.broker.broker import Broker
from mcpd.broker.call import Call
from mcpd.broker.catalog import Found
from mcpd.broker.parties import Parts, Plain
from mcpd.broker.place import Place
from mcpd.broker.requests import VIEW_BYTES, ToolRequest
from mcpd.broker.scopes import Seeker
from mcpd.errors import CallTimeout, McpdError, ShuttingDown
from mcpd.protocol import capabilities, jsonrpc, paging, rawjson
from mcpd.protocol.capabilities import Capabilities
from mcpd.protocol.jsonrpc import ABSENT

from .cli import arguments
from .cli.commandline import CallCommand, ToolsCommand, parse_argv, wants_json
from .cli.failures import error_output
from .cli.render import call_output
from .cli.text import Output
from .cli.toolpages import schema_page, tool_page, tools_output
from .connection import Connection
from .lists import ListParams, Lists

# A server that is slow to list its tools does not keep one from calling them.
LIST_PATIENCE_SECONDS = 5.0
# Arguments that need no schema are only compared with it where that costs nobody a wait.
CHECK_PATIENCE_SECONDS = 1.0


class CliParams(Struct):
    """`params` of mcpd/cli; `capabilities` are what the one at the terminal can be asked."""

    argv: list[str]
    cwd: str = "/"
    columns: int | None = None
    files: dict[str, str] = {}
    meta: dict[str, Raw] | None = msgspec.field(name="_meta", default=None)
    capabilities: Raw = Raw(b"")


class Waiter(Plain):
    """A client of the broker that a task waits for."""

    def __init__(self, connection: Connection, able: Capabilities) -> None:
        self._connection, self.capabilities = connection, able
        self.capabilities_json = able.to_json()
        self._done = trio.Event()
        self._result: bytes | None = None
        self._error: Mapping[str, Any] = {}

    @property
    def key(self) -> Hashable:
        """Its connection's: that is whose share it takes."""
        return self._connection.key

    @property
    def seeker(self) -> Seeker:
        """Its connection's."""
        return self._connection.seeker

    def answered(self, call: Call, parts: Parts) -> None:
        """Wake the task."""
        self._result = b"".join(parts)
        self._connection.wake()
        self._done.set()

    def refused(self, call: Call, error: bytes) -> None:
        """Wake the task."""
        self._error = foreign(error) if call.passed_on else msgspec.json.decode(error)
        self._connection.wake()
        self._done.set()

    def progressed(self, call: Call, params: bytes) -> None:
        """Pass it on: the client has asked for it with its own token."""
        self._connection.progressed(call, params)

    @property
    def log_level(self) -> str | None:
        """Its connection's."""
        return self._connection.log_level

    def notified(self, method: str, params: bytes) -> None:
        """Pass it on."""
        self._connection.notified(method, params)

    def ask(self, question: Question) -> None:
        """Pass it on."""
        self._connection.ask(question)

    def withdraw(self, question: Question, reason: str) -> None:
        """Pass it on."""
        self._connection.withdraw(question, reason)

    async def outcome(self) -> tuple[bytes | None, Mapping[str, Any]]:
        """Return the result, or None and the error."""
        await self._done.wait()
        return self._result, self._error


class Commands:
    """Runs command lines for connections."""

    def __init__(self, broker: Broker, lists: Lists) -> None:
        self._broker, self._lists = broker, lists

    async def run(self, connection: Connection, p: CliParams) -> dict[str, object]:
        """Run one command line; return `{exit, stdout, stderr}`, whatever happens.

        Where a sign-in is missing, `error` says what the server wants: the client can sign in and ask again.
        """
        argv = p.argv
        as_json, server = wants_json(argv), None
        try:
            command = parse_argv(argv, {**self._broker.config.servers, **self._broker.config.wrong})
            server = command.server
            if isinstance(command, CallCommand):
                output = await self._call(connection, command, p)
            else:
                output = await self._tools(command, p.columns, connection)
        except ShuttingDown:
            raise  # not rendered: the client may ask the next daemon
        except McpdError as problem:
            output = error_output(problem.to_error(), as_json=as_json, server=server)
        answer: dict[str, object] = {"exit": output.exit, "stdout": output.stdout, "stderr": output.stderr}
        return answer if output.wants is None else {**answer, "error": output.wants}

    # -- call ------------------------------------------------------------------------------------

    async def _call(self, connection: Connection, command: CallCommand, p: CliParams) -> Output:
        begun = trio.current_time()
        needed = arguments.needs_schema(command)
        waiter = Waiter(connection, capabilities.read(p.capabilities))
        schema = await self._schema(command, waiter, needed=needed) if needed or command.check else None
        body = arguments.build(command, schema, p.files)
        timeout = command.timeout_seconds
        if timeout is not None:
            timeout = max(0.001, timeout - (trio.current_time() - begun))
        request = ToolRequest(
            server=command.server,
            tool=command.tool,
            arguments=Raw(body),
            timeout=timeout,
            max_bytes=command.max_bytes or VIEW_BYTES,
            meta=p.meta or None,
        )
        await trio.lowlevel.checkpoint_if_cancelled()  # the client may have turned to another project
        call = self._broker.call(waiter, b"0", request)
        try:
            result, error = await waiter.outcome()
        finally:
            call.cancel("the client has left")
        if result is None:
            _raise_if_untried(error)
            return error_output(error, as_json=command.as_json, server=command.server)
        return call_output(result, command, p.columns)

    async def _schema(self, command: CallCommand, waiter: Waiter, *, needed: bool) -> bytes | None:
        """Return the tool's input schema; None where the server does not tell, or not in time.

        Raises:
            McpdError: The server cannot be had, or has no such tool.
        """
        place = self._broker.resolve(command.server, waiter.seeker)
        if not place.catalog.allows(command.tool):
            raise place.denied(command.tool)
        with trio.move_on_after(command.timeout_seconds or float("inf")) as limit:
            place = await self._broker.ready(command.server, waiter)
        if limit.cancelled_caught:
            name, seconds = command.server, command.timeout_seconds
            why = f"server '{name}' was not ready for '{command.tool}' within {seconds:g} s"
            raise CallTimeout(why, server=name, may_have_run=False)
        if not needed and place.catalog.failed("tools"):
            return None  # nothing to check with, and it was waited for already
        found = await self._patiently(place, command.tool, LIST_PATIENCE_SECONDS if needed else CHECK_PATIENCE_SECONDS)
        if found is None or found.descriptor is None:
            if found is not None and found.certain:
                raise place.unknown_tool(command.tool, waiter)
            return None
        return bytes(rawjson.members(found.descriptor, "the tool").get("inputSchema", ABSENT)) or None

    async def _patiently(self, place: Place, tool: str, seconds: float) -> Found | None:
        """Return what the server says of a tool; None if it does not tell in time.

        Raises:
            McpdError: The server has ended meanwhile.
        """
        try:
            with trio.move_on_after(seconds):
                await trio.lowlevel.checkpoint()
                return await place.catalog.find(tool)
        except McpdError:
            if place.slot.session is None:
                raise
        return None

    # -- tools -----------------------------------------------------------------------------------

    async def _tools(self, command: ToolsCommand, columns: int | None, connection: Connection) -> Output:
        if command.tool is not None:
            return await self._tool(command, columns, connection)
        if command.as_json and not command.all:
            params = ListParams(server=command.server, limit=paging.MAX_LIMIT)
            return Output(0, msgspec.json.encode(await self._lists.page("tools", params, connection)).decode() + "\n", "")
        found = await self._lists.gather("tools", command.server, connection)
        listing: dict[str, object] = {
            "items": [item.descriptor for item in found.items],
            "total": len(found.items),
            "shown": len(found.items),
        }
        for extra in ("stale", "stale_servers", "incomplete", "set_aside", "problems"):
            if value := getattr(found, extra):
                listing[extra] = value
        if not found.items and found.problems and self._broker.config.unusable:
            raise self._broker.why_not("")
        body = msgspec.json.encode(listing)
        return Output(0, body.decode() + "\n", "") if command.as_json else tools_output(body, command, columns)

    async def _tool(self, command: ToolsCommand, columns: int | None, connection: Connection) -> Output:
        server, tool = command.server or "", command.tool or ""

        async def describe(place: Place) -> Raw:
            listing, _ = await place.catalog.listing("tools")
            if tool not in listing.names:
                listing, _ = await place.catalog.listing("tools", fresh=True)
            if tool not in listing.names:
                raise place.unknown_tool(tool)
            return listing.names[tool]

        descriptor = await self._broker.at(server, connection, describe)
        if command.as_json:
            return Output(0, bytes(descriptor).decode() + "\n", "")
        return schema_page(descriptor) if command.schema else tool_page(server, descriptor, columns)


def _raise_if_untried(error: Mapping[str, Any]) -> None:
    """Raise what a stopping daemon did not even try, so that the client can ask the next one."""
    data = error.get("data")
    if isinstance(data, dict) and data.get("class") == ShuttingDown.kind and data.get("may_have_run") is False:
        raise ShuttingDown("the daemon is stopping", server=data.get("server"), may_have_run=False)


def foreign(body: bytes) -> Mapping[str, Any]:
    """Return an upstream's own error for rendering; its `data` stays as it came and means nothing to us."""
    seen = jsonrpc.read_error(Raw(body))
    error: dict[str, Any] = {"code": seen.code, "message": seen.message}
    return {**error, "data": seen.data} if seen.data else error
