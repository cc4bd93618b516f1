"""A server that speaks as it is told: `odd_server.py [HOW…]`.

HOW: `reads-frames` and `writes-frames` use `Content-Length`, instead of lines; `banner` prints a few lines of
its own first; `old=DATE` agrees on that revision, whatever is asked for.
"""

import json
import sys

BANNER = b"odd server 1.0\nlistening on stdio\n\n"


def read(*, framed: bool) -> bytes:
    """Return the next message, or nothing at the end."""
    if not framed:
        return sys.stdin.buffer.readline()
    size = 0
    while header := sys.stdin.buffer.readline().strip():
        size = int(header.rpartition(b":")[2])
    return sys.stdin.buffer.read(size)


def answer(message: dict, revision: str | None) -> dict:
    """Return the result of a request, or its error."""
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
            return {"result": {"protocolVersion": revision or params["protocolVersion"], **about}}
        case "tools/list":
            schema = {"type": "object", "properties": {"text": {"type": "string"}}}
            return {"result": {"tools": [{"name": name, "inputSchema": schema} for name in ("echo", "other")]}}
        case "tools/call":
            return {"result": {"content": [{"type": "text", "text": params["arguments"].get("text", "")}]}}
    return {"error": {"code": -32601, "message": "method not found"}}


def main(*how: str) -> None:
    """Be a server."""
    out = sys.stdout.buffer
    revision = next((word.partition("=")[2] for word in how if word.startswith("old=")), None)
    if "banner" in how:
        out.write(BANNER)
        out.flush()
    while data := read(framed="reads-frames" in how):
        message = json.loads(data)
        if "id" in message:
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message, revision)}).encode()
            out.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) if "writes-frames" in how else body + b"\n")
            out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
