"""What a host says of its server `demo`: one line, `ok HOST: …` or `failed HOST: …`, and the exit code to it.

python look.py HOST
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOOLS = ["add", "ask", "big", "counter", "echo", "fail", "image", "slow"]
PATIENCE_SECONDS = 90
NOBODY = "http://127.0.0.1:9"


class Failed(Exception):
    """The host has no working server, and this is what it says."""


def run(*command: str, **environ: str) -> str:
    """Return what a host prints, both outputs."""
    done = subprocess.run(
        command,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout.decode("utf-8", "replace"))


def messages(command: list[str], talk: Callable[[IO[bytes]], None], **environ: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON lines of a host that is ended when the caller has seen enough."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    watch = threading.Timer(PATIENCE_SECONDS, process.kill)
    watch.start()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        talk(process.stdin)
        for line in process.stdout:
            if line.startswith(b"{"):
                yield json.loads(line)
    finally:
        watch.cancel()
        process.stdin.close()
        try:
            # So that what it has started sees the end of its input, too.
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
        process.stdout.close()


def write(stdin: IO[bytes], *lines: object) -> None:
    """Send JSON lines."""
    for line in lines:
        stdin.write(json.dumps(line).encode() + b"\n")
    stdin.flush()


def found(said: str, pattern: str) -> str:
    """Return the line that tells of success."""
    match = re.search(pattern, said)
    if match is None:
        raise Failed(" | ".join(line.strip() for line in said.splitlines() if line.strip())[-500:])
    return match[0].strip()


def claude_code() -> str:
    """Ask for the health, and then what a session without a model behind it begins with: its tools."""
    health = found(run("claude", "mcp", "list"), r"demo: .* - ✔ Connected")
    command = ["claude", "-p", "hi", "--output-format", "stream-json", "--verbose"]
    start = next(messages(command, IO.close, ANTHROPIC_API_KEY="none", ANTHROPIC_BASE_URL=NOBODY), {})
    check_tools([name.removeprefix("mcp__demo__") for name in start.get("tools", []) if name.startswith("mcp__demo__")])
    return f"{health}; a session has {len(TOOLS)} tools mcp__demo__*"


def codex() -> str:
    """Ask the app-server, as an editor does."""
    client = {"name": "look", "version": "1"}

    def talk(stdin: IO[bytes]) -> None:
        write(stdin, {"id": 1, "method": "initialize", "params": {"clientInfo": client}}, {"method": "initialized"})
        write(stdin, {"id": 2, "method": "mcpServerStatus/list", "params": {}})

    for message in messages(["codex", "app-server"], talk):
        if message.get("id") == 2:
            (server,) = message["result"]["data"]
            check_tools(list(server["tools"]))
            return f"mcpServerStatus/list: {server['name']}, {server['serverInfo']['name']}, {len(TOOLS)} tools"
    raise Failed("the app-server ended without an answer")


def gemini() -> str:
    """Ask for the list, in a folder that is trusted: elsewhere it starts nothing."""
    return found(run("gemini", "mcp", "list", GEMINI_CLI_TRUST_WORKSPACE="true"), r"✓ demo: .* - Connected")


def opencode() -> str:
    """Ask for the list; "connected" is what it says after it has the tools."""
    return found(run("opencode", "mcp", "list"), r"✓ demo +connected")


def grok() -> str:
    """Ask its doctor."""
    said = run("grok", "mcp", "doctor", "--json")
    try:
        (server,) = json.loads(said)["servers"]
    except ValueError:
        raise Failed(said[-500:]) from None
    checks = "; ".join(f"{check['label']} {check['detail']}".strip() for check in server["checks"])
    if not server["healthy"] or f"{len(TOOLS)} tools discovered" not in checks:
        raise Failed(checks)
    return f"doctor: {checks}"


def check_tools(names: list[str]) -> None:
    """Make sure that the demo server's tools are there, and no others."""
    if sorted(names) != TOOLS:
        raise Failed(f"its tools are {sorted(names)}")


def main(host: str) -> int:
    looks = {"claude-code": claude_code, "codex": codex, "gemini": gemini, "opencode": opencode, "grok": grok}
    try:
        print(f"ok {host}: {looks[host]()}", flush=True)
    except Failed as error:
        print(f"failed {host}: {error}", flush=True)
        return 1
    except (OSError, LookupError, ValueError, subprocess.SubprocessError) as error:
        print(f"failed {host}: {type(error).__name__}: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
