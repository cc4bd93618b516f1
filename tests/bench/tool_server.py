"""An MCP server over stdio with as many tools as its argument says; `echo` is the last of them.

What a call costs here does not depend on how many tools there are, so that what differs is the broker's.
It speaks only the revisions with a handshake, and lists all of its tools on one page. The text `change the
list` changes it and says so; `how often?` asks how often it was listed.
"""

import json
import os
import sys

PROTOCOL_VERSION = "2025-11-25"
CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
SEEN = {"listed": 0, "changed": b""}


def described(name: str, member: str) -> dict[str, object]:
    """Return a descriptor of the size that real ones have: a sentence, and a schema with one required member."""
    return {
        "name": name,
        "description": f"Take {member} and give it back unchanged; one of many tools that differ in name alone.",
        "inputSchema": {
            "type": "object",
            "properties": {member: {"type": "string", "description": f"The {member} to give back."}},
            "required": [member],
        },
    }


def said(text: str, tools: list) -> str:
    """Return the text, after doing what it says."""
    if text == "how often?":
        return str(SEEN["listed"])
    if text == "change the list":
        tools[0]["description"] += "."
        SEEN["changed"] = CHANGED
    return text


def answer(method: str, params: dict, tools: list) -> tuple[str, object]:
    """Return the member of the reply, `result` or `error`, and its value."""
    if method == "tools/call":
        return "result", {"content": [{"type": "text", "text": said(params["arguments"]["text"], tools)}]}
    if method == "tools/list":
        SEEN["listed"] += 1
        return "result", {"tools": tools}
    if method == "initialize":
        about = {"name": "tool-server", "version": "1"}
        return "result", {"protocolVersion": PROTOCOL_VERSION, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": about}
    if method == "ping":
        return "result", {}
    return "error", {"code": -32601, "message": f"no method {method}"}


def reply(line: bytes, tools: list) -> bytes:
    """Return the line that answers a line; empty for a notification."""
    message = json.loads(line)
    if "id" not in message:
        return b""
    member, value = answer(message["method"], message.get("params") or {}, tools)
    told, SEEN["changed"] = SEEN["changed"], b""
    return told + json.dumps({"jsonrpc": "2.0", "id": message["id"], member: value}).encode() + b"\n"


def main(count: int) -> None:
    """Answer all that is there with one write, until stdin ends."""
    tools = [described(f"tool_{number}", "value") for number in range(1, count)] + [described("echo", "text")]
    rest = b""
    while chunk := os.read(0, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        unwritten = b"".join(reply(line, tools) for line in lines)
        while unwritten:
            unwritten = unwritten[os.write(1, unwritten) :]


if __name__ == "__main__":
    main(int(sys.argv[1]))
