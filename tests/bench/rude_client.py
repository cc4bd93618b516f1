"""A client that a daemon has to bear: `rude_client.py SOCKET flood|deaf SERVER`; it ends with its stdin.

`flood` always has as many calls outstanding as it may; `deaf` asks for large results and never reads one.
"""

import json
import select
import socket
import sys

OUTSTANDING = 256
BLOB_BYTES = 1_000_000


def call(number: int, server: str, tool: str, **arguments: object) -> bytes:
    """Return a request."""
    params = {"server": server, "tool": tool, "arguments": arguments, "max_bytes": 2 * BLOB_BYTES}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "mcpd/call", "params": params}).encode() + b"\n"


def flood(sock: socket.socket, server: str) -> None:
    """Send a call for every answer."""
    number = OUTSTANDING
    sock.sendall(b"".join(call(one, server, "echo", text="hello") for one in range(number)))
    while True:
        ready, _, _ = select.select([sock, sys.stdin], [], [])
        if sys.stdin in ready or not (data := sock.recv(1 << 20)):
            return
        answered = data.count(b"\n")
        sock.sendall(b"".join(call(number + one, server, "echo", text="hello") for one in range(answered)))
        number += answered


def be_deaf(sock: socket.socket, server: str) -> None:
    """Send what fits, and wait."""
    sock.setblocking(False)
    try:
        for number in range(10 * OUTSTANDING):
            sock.send(call(number, server, "blob", n=BLOB_BYTES))
    except BlockingIOError:
        pass
    sys.stdin.read()


def main(path: str, how: str, server: str) -> None:
    """Connect and be rude."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        {"flood": flood, "deaf": be_deaf}[how](sock, server)


if __name__ == "__main__":
    main(*sys.argv[1:])
