"""The yardstick of remote calls: the same call with nothing but httpx2 on trio.

    python http_client.py URL

Each line of stdin is a number of callers and a number of seconds; the answer is one line of JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import httpx2
import msgspec
import trio

REVISION = "2026-07-28"
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": REVISION,
    "Mcp-Method": "tools/call",
    "Mcp-Name": "echo",
}
META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PARAMS = {"name": "echo", "arguments": {"text": "hello"}, "_meta": META}


class Load:
    """Callers that share one client, each with one call outstanding."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http, self._url, self._last_id = http, url, 0

    async def run(self, callers: int, seconds: float) -> dict[str, float]:
        """Call for that long; the first fifth is not counted."""
        taken: list[float] = []
        begin, calls, cpu = time.perf_counter(), self._last_id, time.process_time()
        warm, end = begin + seconds / 5, begin + seconds
        async with trio.open_nursery() as nursery:
            for _ in range(callers):
                nursery.start_soon(self._caller, warm, end, taken)
        return {
            "p50_us": statistics.median(taken) * 1e6,
            "per_s": len(taken) / (time.perf_counter() - warm),
            "cpu_us": (time.process_time() - cpu) / (self._last_id - calls) * 1e6,
        }

    async def _caller(self, warm: float, end: float, taken: list[float]) -> None:
        while (begin := time.perf_counter()) < end:
            await self._call()
            if begin >= warm:
                taken.append(time.perf_counter() - begin)

    async def _call(self) -> None:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": "tools/call", "params": PARAMS}
        answer = await self._http.post(self._url, content=msgspec.json.encode(message), headers=HEADERS)
        body = answer.content
        if answer.headers["content-type"] == "text/event-stream":
            body = body.partition(b"data: ")[2]
        said = msgspec.json.decode(body)
        if said["id"] > self._last_id or said["result"]["content"][0]["text"] != "hello":
            raise RuntimeError(f"unexpected answer: {body[:200]!r}")


async def main(url: str) -> None:
    limits = httpx2.Limits(max_connections=100, max_keepalive_connections=100)
    async with httpx2.AsyncClient(limits=limits, timeout=30, trust_env=False) as http:
        load = Load(http, url)
        while line := await trio.to_thread.run_sync(sys.stdin.readline):
            callers, seconds = line.split()
            print(json.dumps(await load.run(int(callers), float(seconds))), flush=True)


trio.run(main, *sys.argv[1:])
