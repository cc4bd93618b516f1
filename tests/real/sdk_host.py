"""Hosts made with the official Python SDK (`mcp` 2.3): `sdk_host.py SOCKET`.

Each connection to the socket is one host with a server of its own, and says in lines of JSON-RPC what the
host shall do: `connect` first, then requests and notifications of MCP, each done by what the SDK has for
it. What the SDK hears comes back in the same words, and so do the questions that it is asked.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from itertools import count
from typing import Any, cast

import anyio
import mcp.client.session as session_module
import mcp_types as types
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, event_to_notification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter

LINE_BYTES = 1 << 26
CANCELLED = "notifications/cancelled"
ANSWERS: Mapping[str, type[BaseModel]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}
REFERENCE: TypeAdapter[Any] = TypeAdapter(types.PromptReference | types.ResourceTemplateReference)
# The SDK offers the newest revision of the handshake only, by the name that one module has for it.
choosing = anyio.Lock()

Params = dict[str, Any]


def plain(value: BaseModel) -> Any:
    """Return what goes over the wire."""
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


class Host:
    """One host.

    Attributes:
        client: the SDK's client, once there is one.
    """

    client: Client

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)
        self._writing = anyio.Lock()
        self._running: dict[Any, anyio.CancelScope] = {}
        self._keys = (f"question-{number}" for number in count(1))
        self._open: dict[str, Callable[[Params], None]] = {}

    # -- lines -----------------------------------------------------------------------------------

    async def read(self) -> Params:
        """Return the next line."""
        return cast(Params, json.loads(await self._lines.receive_until(b"\n", LINE_BYTES)))

    async def write(self, **message: Any) -> None:
        """Write a line."""
        async with self._writing:
            await self._stream.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def run(self) -> None:
        """Be the host, until nobody says what to do any more."""
        async with AsyncExitStack() as stack:
            first = await self.read()
            await self.answer(first, lambda: self.connect(stack, **first["params"]))
            async with anyio.create_task_group() as tasks:
                try:
                    while True:
                        message = await self.read()
                        if "method" not in message:
                            self._open.pop(message["id"])(message)
                        elif "id" in message:
                            tasks.start_soon(self.serve, message)
                        else:
                            await self.notify(message["method"], message["params"])
                except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                    tasks.cancel_scope.cancel()

    async def answer(self, message: Params, work: Callable[[], Awaitable[Any]]) -> None:
        """Do some work and write what came of it."""
        try:
            result = await work()
        except MCPError as error:
            await self.write(id=message["id"], error=plain(error.error))
        except Exception as error:  # noqa: BLE001  # whatever the SDK says is what the test is to hear
            await self.write(id=message["id"], error={"code": 0, "message": f"{type(error).__name__}: {error}"})
        else:
            await self.write(id=message["id"], result=plain(result) if isinstance(result, BaseModel) else result)

    async def serve(self, message: Params) -> None:
        """Do what a request says, until it is cancelled."""
        with anyio.CancelScope() as scope:
            self._running[message["id"]] = scope
            await self.answer(message, lambda: self.request(message["id"], message["method"], message["params"]))
        del self._running[message["id"]]
        if scope.cancelled_caught:
            await self.write(id=message["id"], error={"code": 0, "message": "cancelled"})

    # -- what the SDK is told --------------------------------------------------------------------

    async def connect(
        self, stack: AsyncExitStack, command: list[str], revision: str, can: list[str], **more: Any
    ) -> Any:
        """Start the server; say what was agreed."""
        modern = revision in MODERN_PROTOCOL_VERSIONS
        self.client = Client(
            StdioServerParameters(command=command[0], args=command[1:], env=more.get("env"), cwd=more.get("cwd")),
            # That is the one that asks by `server/discover`; with a revision that is given it asks for nothing.
            mode="auto" if modern else "legacy",
            message_handler=self.hear,
            elicitation_callback=self.elicit if "elicitation" in can else None,
            sampling_callback=self.sample if "sampling" in can else None,
            list_roots_callback=self.roots if "roots" in can else None,
            client_info=types.Implementation(name="a-host", version="1"),
        )
        async with choosing:
            if not modern:
                session_module.LATEST_HANDSHAKE_VERSION = revision
            await stack.enter_async_context(self.client)
        client = self.client
        return {
            "protocolVersion": client.protocol_version,
            "capabilities": plain(client.server_capabilities),
            "serverInfo": plain(client.server_info) if client.server_info else None,
            "instructions": client.instructions,
        }

    async def request(self, number: Any, method: str, params: Params) -> Any:
        """Do one request of MCP."""
        client, meta = self.client, dict(params.get("_meta", {}))
        token = meta.pop("progressToken", None)
        more = {"meta": meta} if meta else {}
        match method:
            case "ping":
                return await client.send_ping()
            case "tools/list":
                return await client.list_tools()
            case "prompts/list":
                return await client.list_prompts()
            case "resources/list":
                return await client.list_resources()
            case "resources/templates/list":
                return await client.list_resource_templates()
            case "tools/call":
                told = None if token is None else self.progress_of(token)
                return await client.call_tool(params["name"], params.get("arguments"), progress_callback=told, **more)
            case "prompts/get":
                return await client.get_prompt(params["name"], params.get("arguments"), **more)
            case "resources/read":
                return await client.read_resource(params["uri"], **more)
            case "completion/complete":
                context = params.get("context", {}).get("arguments")
                return await client.complete(REFERENCE.validate_python(params["ref"]), params["argument"], context)
            case "logging/setLevel":
                return await client.set_logging_level(params["level"])
            case "resources/subscribe":
                return await client.subscribe_resource(params["uri"])
            case "resources/unsubscribe":
                return await client.unsubscribe_resource(params["uri"])
            case "subscriptions/listen":
                return await self.listen(number, types.SubscriptionFilter.model_validate(params["notifications"]))
        raise ValueError(f"this host cannot do {method}")

    async def listen(self, number: Any, wanted: types.SubscriptionFilter) -> Any:
        """Tell what a subscription tells, until its end."""
        wishes = {key: value for key, value in wanted.model_dump().items() if value and key != "task_ids"}
        async with self.client.listen(**wishes) as subscription:
            await self.write(
                method="notifications/subscriptions/acknowledged",
                params={"notifications": plain(subscription.honored), "_meta": {SUBSCRIPTION_ID_META_KEY: number}},
            )
            async for event in subscription:
                await self.write(**plain(event_to_notification(event, {SUBSCRIPTION_ID_META_KEY: number})))
        return {}

    async def notify(self, method: str, params: Params) -> None:
        """Do what a notification says."""
        if method == CANCELLED:
            self._running[params["requestId"]].cancel()
        else:
            await self.client.send_roots_list_changed()

    # -- what the SDK says -----------------------------------------------------------------------

    def progress_of(self, token: Any) -> Any:
        """Return what is to be called with the progress of a request."""

        async def told(progress: float, total: float | None, message: str | None) -> None:
            params = {"progressToken": token, "progress": progress, "total": total, "message": message}
            await self.write(method="notifications/progress", params=params)

        return told

    async def hear(self, message: Any) -> None:
        """Pass a notification on, if nothing else does."""
        if isinstance(message, Exception):
            await self.write(method="fault", params={"message": repr(message)})
            return
        said = plain(message)
        meta = said.get("params", {}).get("_meta", {})
        if said["method"] != "notifications/progress" and SUBSCRIPTION_ID_META_KEY not in meta:
            await self.write(method=said["method"], params=said.get("params", {}))

    async def elicit(self, context: Any, params: BaseModel) -> Any:
        return await self.asked("elicitation/create", plain(params))

    async def sample(self, context: Any, params: BaseModel) -> Any:
        return await self.asked("sampling/createMessage", plain(params))

    async def roots(self, context: Any) -> Any:
        return await self.asked("roots/list", {})

    async def asked(self, method: str, params: Params) -> Any:
        """Pass a question on, and return the answer."""
        key, answered, answers = next(self._keys), anyio.Event(), []

        def reply(message: Params) -> None:
            answers.append(message)
            answered.set()

        self._open[key] = reply
        await self.write(id=key, method=method, params=params)
        try:
            await answered.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self.write(method=CANCELLED, params={"requestId": key})
            raise
        (message,) = answers
        if "error" in message:
            return types.ErrorData.model_validate(message["error"])
        return ANSWERS[method].model_validate(message["result"], by_name=False)


async def serve(stream: SocketStream) -> None:
    async with stream:
        await Host(stream).run()


async def main(path: str) -> None:
    listener = await anyio.create_unix_listener(path)
    await listener.serve(serve)


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    anyio.run(main, *sys.argv[1:])
