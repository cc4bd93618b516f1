"""The tools of `sdk_server.py`, and how a server asks its client something.

`legacy` are the revisions with `initialize`; there a server asks by requests of its own, and in modern
ones by an interim result.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, get_args

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

Context = ServerRequestContext[Any]
Tool = Callable[..., Awaitable[Any]]
Answer = TypeVar("Answer", bound=BaseModel)

# A client gives this back as it was: text that is no ASCII, looks like JSON, and ends in a blank.
STATE = '{"état": "☂", "n": 1.0} '
QUESTION = "the question"
LEVELS = get_args(types.LoggingLevel)
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

bus = InMemorySubscriptionBus()
tools: dict[str, tuple[types.Tool, Tool]] = {}
prompts = ["greeting", "interview", "farewell"]
notes = {"note://first": "the first note", "note://second": "the second note", "note://asked": ""}
templates = ["note://{name}", "draft://{name}", "letter://{name}"]
subscribed: set[str] = set()
chosen_level: list[str] = []
open_questions: list[anyio.CancelScope] = []


class Unanswered(Exception):
    """No error: what a request needs from the client before it can go on."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        self.result = result


def modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def ask(ctx: Context, request: types.ServerRequest, kind: type[Answer], **more: Any) -> Answer:
    """Ask the client, in the way of the revision.

    Raises:
        Unanswered: The answer comes with the same request, once more.
    """
    if not modern(ctx):
        related = ServerMessageMetadata(related_request_id=ctx.request_id)
        return await ctx.session.send_request(request, kind, metadata=related, **more)
    params = ctx.params or {}
    if "inputResponses" not in params:
        raise Unanswered(types.InputRequiredResult(input_requests={QUESTION: request}, request_state=STATE))
    if params.get("requestState") != STATE:
        raise MCPError(types.INVALID_PARAMS, "this is not the state that was given")
    return kind.model_validate(params["inputResponses"][QUESTION], by_name=False)


def elicitation() -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message="Who are you?", requested_schema=FORM))


def sampling() -> types.CreateMessageRequest:
    content = types.TextContent(text="Say something.")
    message = types.SamplingMessage(role="user", content=content)
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=9))


def as_json(value: BaseModel | None) -> str:
    return value.model_dump_json(by_alias=True, exclude_none=True) if value else "{}"


# -- tools ---------------------------------------------------------------------------------------


def tool(**more: Any) -> Callable[[Tool], Tool]:
    """Offer a function as a tool; what it returns is the result, a text alone stands for its content."""

    def register(function: Tool) -> Tool:
        schema = {"type": "object", "additionalProperties": True}
        described = types.Tool(name=function.__name__, input_schema=schema, description=function.__doc__, **more)
        tools[function.__name__] = (described, function)
        return function

    return register


@tool()
async def echo(ctx: Context, text: str = "", message: str = "") -> str:
    """Give the text back."""
    return text


@tool(output_schema={"type": "object", "properties": {"length": {"type": "integer"}}, "required": ["length"]})
async def measure(ctx: Context, text: str) -> types.CallToolResult:
    """Give structured content."""
    found = {"length": len(text)}
    content = types.TextContent(text=json.dumps(found))
    return types.CallToolResult(content=[content], structured_content=found, _meta={"example.org/measured": True})


@tool()
async def fail(ctx: Context) -> types.CallToolResult:
    """Give a result that is an error."""
    return types.CallToolResult(content=[types.TextContent(text="it did not work")], is_error=True)


@tool()
async def refuse(ctx: Context) -> None:
    """Answer with an error of the protocol."""
    raise MCPError(-31999, "not today", {"why": "it is Sunday"})


@tool()
async def capabilities(ctx: Context) -> str:
    """Say what the client can do."""
    return as_json(ctx.session.client_capabilities)


@tool()
async def picture(ctx: Context) -> types.CallToolResult:
    """Give what is no text."""
    image = types.ImageContent(data="iVBORw0KGgo=", mime_type="image/png")
    inside = types.EmbeddedResource(resource=types.TextResourceContents(uri="note://first", text=notes["note://first"]))
    return types.CallToolResult(content=[types.TextContent(text="a picture"), image, inside])


@tool()
async def link(ctx: Context, uri: str) -> types.CallToolResult:
    """Say where something is to be read."""
    return types.CallToolResult(content=[types.ResourceLink(uri=uri, name="a note")])


@tool()
async def count(ctx: Context, steps: int) -> str:
    """Report each step."""
    for step in range(1, steps + 1):
        await ctx.session.report_progress(step, steps, f"step {step}")
    return "counted"


@tool()
async def climb(ctx: Context, steps: int) -> str:
    """Report each step, and end when `give_up` is called."""
    await count(ctx, steps)
    with anyio.CancelScope() as scope:
        open_questions.append(scope)
        await anyio.sleep_forever()
    return "at the top"


@tool()
async def wait(ctx: Context) -> None:
    """Say that it has begun, and never end."""
    await ctx.session.report_progress(0)
    await anyio.sleep_forever()


@tool()
async def say(ctx: Context, level: types.LoggingLevel, text: str) -> str:
    """Log a message, in legacy revisions if it is of the chosen level."""
    loud = chosen_level and LEVELS.index(level) >= LEVELS.index(chosen_level[-1])
    if modern(ctx) or loud:
        await ctx.session.send_log_message(level, text, logger="sdk", related_request_id=ctx.request_id)
    return "said"


@tool()
async def ping_back(ctx: Context) -> str:
    """Ping the client."""
    return as_json(await ctx.session.send_ping())


@tool()
async def ask_name(ctx: Context) -> str:
    """Ask with a form."""
    return as_json(await ask(ctx, elicitation(), types.ElicitResult))


@tool()
async def insist(ctx: Context) -> types.InputRequiredResult:
    """Ask, whatever the answer was."""
    return types.InputRequiredResult(input_requests={QUESTION: elicitation()})


@tool()
async def ask_visit(ctx: Context) -> str:
    """Ask with an address."""
    params = types.ElicitRequestURLParams(message="Sign in, please.", url="https://example.org/sign-in?x=1")
    if not modern(ctx):
        params.elicitation_id = "visit-1"
    said = await ask(ctx, types.ElicitRequest(params=params), types.ElicitResult)
    if params.elicitation_id:
        await ctx.session.send_elicit_complete(params.elicitation_id, related_request_id=ctx.request_id)
    return as_json(said)


@tool()
async def sample(ctx: Context) -> str:
    """Have the client's model say something; in legacy revisions, hear how far it is."""
    heard: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    more = {} if modern(ctx) else {"progress_callback": on_progress}
    said = await ask(ctx, sampling(), types.CreateMessageResult, **more)
    return json.dumps({"said": json.loads(as_json(said)), "heard": heard})


@tool()
async def list_roots(ctx: Context) -> str:
    """Ask for the roots."""
    return as_json(await ask(ctx, types.ListRootsRequest(), types.ListRootsResult))


@tool()
async def hesitate(ctx: Context) -> str:
    """Ask, and take the question back when `give_up` is called."""
    with anyio.CancelScope() as scope:
        open_questions.append(scope)
        await ask(ctx, sampling(), types.CreateMessageResult)
    return "given up" if scope.cancelled_caught else "answered"


@tool()
async def give_up(ctx: Context) -> str:
    """Take all open questions back, and stay nowhere."""
    while open_questions:
        open_questions.pop().cancel()
    return "done"


@tool()
async def defer(ctx: Context) -> dict[str, Any]:
    """Answer with a task that nobody has asked for."""
    return {"resultType": "task", "taskId": "t1", "status": "working", "ttlMs": None}


@tool()
async def change(ctx: Context, kind: str, name: str) -> str:
    """Add something to a list, and say so."""
    match kind:
        case "tools":
            tools[name] = (types.Tool(name=name, input_schema={"type": "object"}), echo)
            event, tell = ToolsListChanged(), ctx.session.send_tool_list_changed
        case "prompts":
            prompts.append(name)
            event, tell = PromptsListChanged(), ctx.session.send_prompt_list_changed
        case "resources":
            notes[f"note://{name}"] = "new"
            event, tell = ResourcesListChanged(), ctx.session.send_resource_list_changed
        case _:
            templates.append(f"{name}://{{name}}")
            event, tell = ResourcesListChanged(), ctx.session.send_resource_list_changed
    await (bus.publish(event) if modern(ctx) else tell())
    return "changed"


@tool()
async def touch(ctx: Context, uri: str) -> str:
    """Say that a resource was updated, to those who want to know."""
    if modern(ctx):
        await bus.publish(ResourceUpdated(uri))
    elif uri in subscribed:
        await ctx.session.send_resource_updated(uri)
    return "touched"
