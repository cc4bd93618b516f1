"""Errors of ours in the words of MCP: for clients that know its codes, and show the text to a model.

Codes of the daemon stay outside the range of JSON-RPC, so that nobody takes them for the server's own;
only what the protocol itself has a code for gets that.
"""

from __future__ import annotations

from typing import Any

from mcpd.errors import BadRequest, InvalidPage, McpdError, UnknownTool
from mcpd.protocol import jsonrpc

# Spec: not found, of resources before 2026-07-28.
NO_RESOURCE = -32002
_INVALID = (UnknownTool.code, BadRequest.code, InvalidPage.code)


def worded(method: str, error: dict[str, Any], *, is_modern: bool) -> dict[str, Any]:
    """Return an error object as `McpdError.to_error` gives it, for a client that speaks MCP.

    The text says what the model has to know: whether the tool may have run, and what helps.
    """
    data = error.get("data")
    if not isinstance(data, dict) or error["code"] < 0:
        return error
    code, message = error["code"], error["message"]
    if code in _INVALID:
        missing = code == UnknownTool.code and method == "resources/read" and not is_modern
        code = NO_RESOURCE if missing else jsonrpc.INVALID_PARAMS
    if data.get("may_have_run"):
        message += " (it may have run)"
    if data.get("hint"):
        hint = data["hint"]
        message += f"; try: {hint}" if hint.startswith("mcpd ") else f"; {hint}"
    return {"code": code, "message": message, "data": data}


def text_result(text: str) -> dict[str, Any]:
    """Return a CallToolResult that is one text."""
    return {"content": [{"type": "text", "text": text}]}


def mistake(problem: McpdError) -> dict[str, Any]:
    """Return a CallToolResult that tells the model what is wrong, so that it can do better."""
    return text_result(problem.message + (f"; {problem.hint}" if problem.hint else "")) | {"isError": True}
