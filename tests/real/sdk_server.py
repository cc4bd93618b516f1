"""A server made with the official Python SDK (`mcp` 2.3), with something of everything.

It speaks the revision that its client speaks.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import anyio
import mcp_types as types
from mcp.server import CacheHint, NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from sdk_tools import (
    Context,
    Unanswered,
    as_json,
    ask,
    bus,
    chosen_level,
    elicitation,
    modern,
    notes,
    prompts,
    subscribed,
    templates,
    tools,
)

PAGE = 2


def page(items: list[Any], params: types.PaginatedRequestParams | None) -> tuple[list[Any], str | None]:
    """Return a page and the cursor of the next; that of the second page is empty, which is not the end."""
    cursor = params.cursor if params else None
    start = 0 if cursor is None else int(cursor or PAGE)
    end = start + PAGE
    return items[start:end], None if end >= len(items) else "" if end == PAGE else str(end)


async def on_list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    items, following = page([described for described, _ in tools.values()], params)
    return types.ListToolsResult(tools=items, next_cursor=following)


async def on_list_prompts(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    arguments = [types.PromptArgument(name="name", required=True), types.PromptArgument(name="tone")]
    items, following = page([types.Prompt(name=name, arguments=arguments) for name in prompts], params)
    return types.ListPromptsResult(prompts=items, next_cursor=following)


async def on_list_resources(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    items, following = page([types.Resource(uri=uri, name=uri) for uri in notes], params)
    return types.ListResourcesResult(resources=items, next_cursor=following)


async def on_list_templates(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    items, following = page([types.ResourceTemplate(uri_template=uri, name=uri) for uri in templates], params)
    return types.ListResourceTemplatesResult(resource_templates=items, next_cursor=following)


async def on_call_tool(ctx: Context, params: types.CallToolRequestParams) -> Any:
    if params.name not in tools:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    try:
        result = await tools[params.name][1](ctx, **(params.arguments or {}))
    except Unanswered as unanswered:
        return unanswered.result
    return types.CallToolResult(content=[types.TextContent(text=result)]) if isinstance(result, str) else result


async def on_get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> Any:
    if params.name not in prompts:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
    if params.name == "farewell":
        raise MCPError(-31998, "not yet", {"why": "it is early"})
    try:
        more = as_json(await ask(ctx, elicitation(), types.ElicitResult)) if params.name == "interview" else ""
    except Unanswered as unanswered:
        return unanswered.result
    text = types.TextContent(text=json.dumps(params.arguments) + more)
    return types.GetPromptResult(description=params.name, messages=[types.PromptMessage(role="user", content=text)])


async def on_read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> Any:
    if params.uri.startswith("draft://"):
        blob = types.BlobResourceContents(uri=params.uri, blob="AAEC", mime_type="application/octet-stream")
        return types.ReadResourceResult(contents=[blob])
    if params.uri not in notes:
        raise MCPError(types.INVALID_PARAMS if modern(ctx) else -32002, "Resource not found", {"uri": params.uri})
    try:
        text = notes[params.uri] or as_json(await ask(ctx, elicitation(), types.ElicitResult))
    except Unanswered as unanswered:
        return unanswered.result
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=text)])


async def on_completion(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    known = (params.context.arguments if params.context else None) or {}
    words = [f"{known.get('tone', '')}{params.ref.type}", "other"]
    values = [word for word in words if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def on_subscribe(ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
    subscribed.add(params.uri)
    return types.EmptyResult()


async def on_unsubscribe(ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    subscribed.discard(params.uri)
    return types.EmptyResult()


async def on_level(ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    chosen_level.append(params.level)
    return types.EmptyResult()


async def main() -> None:
    hint = CacheHint(ttl_ms=600_000, scope="private")
    server = Server(
        "sdk",
        version="1",
        cache_hints={f"{kind}/list": hint for kind in ("tools", "prompts", "resources", "resources/templates")},
        on_list_tools=on_list_tools,
        on_list_prompts=on_list_prompts,
        on_list_resources=on_list_resources,
        on_list_resource_templates=on_list_templates,
        on_call_tool=on_call_tool,
        on_get_prompt=on_get_prompt,
        on_read_resource=on_read_resource,
        on_completion=on_completion,
        on_subscribe_resource=on_subscribe,
        on_unsubscribe_resource=on_unsubscribe,
        on_subscriptions_listen=ListenHandler(bus),
        on_set_logging_level=on_level,
    )
    options = server.create_initialization_options(NotificationOptions(True, True, True))
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, options)


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    anyio.run(main)
