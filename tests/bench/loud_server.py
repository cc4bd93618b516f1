"""An MCP server over stdio that writes notifications at a steady rate from its first call on: `loud_server.py MB_PER_S`.

A slice is written every ten milliseconds; who reads more slowly than that slows it down.
"""

import json
import select
import sys
import time

from tool_server import reply

LINE_BYTES = 1000
SLICE_SECONDS = 0.01


def notifications(size: int) -> bytes:
    """Return lines of log messages of about that many bytes."""
    params = {"level": "info", "logger": "loud", "data": ""}
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    params["data"] = "x" * (LINE_BYTES - len(json.dumps(note)) - 1)
    return (json.dumps(note).encode() + b"\n") * (size // LINE_BYTES)


def main(rate: float) -> None:
    """Serve until the end of input."""
    piece = notifications(int(rate * 1e6 * SLICE_SECONDS))
    source, sink = sys.stdin.buffer.raw, sys.stdout.buffer
    rest, when = b"", None
    while True:
        wait = None if when is None else max(0.0, when - time.monotonic())
        if select.select([source], [], [], wait)[0]:
            if not (chunk := source.read(1 << 16)):
                return
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                sink.write(reply(line, []))
                if when is None and b'"tools/call"' in line:
                    when = time.monotonic()
        else:
            sink.write(piece)
            when = max(when + SLICE_SECONDS, time.monotonic() - SLICE_SECONDS)
        sink.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]))
