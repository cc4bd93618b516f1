"""A client that wants to be asked for nods, and answers the first one: `nodder.py SOCKET READY ANSWER`.

READY is a file that is made as soon as it can be asked; ANSWER is JSON. What it was asked goes to stdout.
"""

import json
import socket
import sys
from pathlib import Path


def main(path: str, ready: str, answer: str) -> None:
    """Be asked once."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        lines = sock.makefile("rw", encoding="utf-8", newline="\n")
        hello = {"version": 1, "client": {"name": "nodder"}, "capabilities": {"approve": {}}}
        lines.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "mcpd/hello", "params": hello}) + "\n")
        lines.flush()
        lines.readline()
        Path(ready).touch()
        asked = json.loads(lines.readline())
        print(json.dumps({"method": asked["method"], **asked["params"]}))
        lines.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": json.loads(answer)}) + "\n")
        lines.flush()
        lines.readline()  # so that the answer is read before it leaves: the next line, or the end


if __name__ == "__main__":
    main(*sys.argv[1:])
