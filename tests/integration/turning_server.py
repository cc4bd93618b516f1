"""A server whose one tool is what two files say: `turning_server.py FOLDER`.

`FOLDER/description` is its description, read for each list; `FOLDER/runs` gets a line for each call.
"""

import json
import sys
from pathlib import Path


def answer(folder: Path, message: dict) -> dict:
    """Return the result of a request, or its error."""
    match message["method"]:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "turning", "version": "1"}}
            return {"result": {"protocolVersion": "2025-11-25", **about}}
        case "tools/list":
            described = {"description": (folder / "description").read_text(), "annotations": {"readOnlyHint": True}}
            return {"result": {"tools": [{"name": "go", "inputSchema": {"type": "object"}, **described}]}}
        case "tools/call":
            with (folder / "runs").open("a") as file:
                file.write(json.dumps(message["params"]["arguments"]) + "\n")
            return {"result": {"content": [{"type": "text", "text": "gone"}]}}
        case "ping":
            return {"result": {}}
    return {"error": {"code": -32601, "message": "method not found"}}


def main(folder: str) -> None:
    """Be a server."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(Path(folder), message)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
