from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mcpd_client.cli.main import main
from tests.client.scripted import Peer

if TYPE_CHECKING:
    from pathlib import Path

DAEMON = {
    "pid": 7,
    "version": "0.1.0",
    "started": "2020-01-01T00:00:00.000Z",
    "socket": "/s",
    "config": "/c.toml",
    "connections": 1,
    "rss_bytes": 41943040,
}
DEMO = {
    "name": "demo",
    "state": "ready",
    "transport": "stdio",
    "target": "mcpd demo-server",
    "scope": "user",
    "pid": 8,
    "era": "modern",
    "revision": "2026-07-28",
    "tools": 8,
    "clients": 2,
    "calls": 3,
    "in_flight": 1,
    "since": "2020-01-01T00:00:00.000Z",
    "incarnation": 1,
    "served": 4,
}
BROKEN = {
    "name": "broken",
    "state": "backoff",
    "transport": "http",
    "target": "https://x",
    "scope": "user",
    "clients": 0,
    "calls": 0,
    "in_flight": 0,
    "since": "2020-01-01T00:00:00.000Z",
    "incarnation": 0,
    "served": 0,
    "reason": "cannot \x1b[31mconnect",
    "retry_after_seconds": 3.6,
}
STATUS = {"daemon": DAEMON, "servers": [DEMO, BROKEN]}
LINE = {"time": "2020-01-01T10:00:00.000Z", "server": "demo", "stream": "stderr", "text": "hello"}

Capture = pytest.CaptureFixture[str]


def on_terminal(*arguments: str) -> str:
    """Run a command with a terminal of 80 columns as its output."""
    controller, terminal = pty.openpty()
    with subprocess.Popen([sys.executable, "-m", "mcpd_client", *arguments], stdout=terminal, stderr=terminal):
        os.close(terminal)
        chunks = []
        try:
            while chunk := os.read(controller, 65536):
                chunks.append(chunk)
        except OSError:
            # The other side has gone.
            pass
    os.close(controller)
    return b"".join(chunks).decode().replace("\r\n", "\n")


def test_status_in_a_pipe_has_a_line_per_server(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/status": STATUS})

    assert main(["status"]) == 0

    first, demo, broken = capfd.readouterr().out.splitlines()
    assert first.startswith("mcpd 0.1.0, pid 7, up ")
    assert first.endswith(" d, 1 connection, 40 MiB, /s")
    assert demo.split("\t") == ["✔", "demo", "ready", "stdio", "8", "2", "3", "8", DEMO["since"], "1 in flight"]
    assert broken.split("\t")[1:3] == ["broken", "backoff"]
    assert broken.endswith("next try in 4 s")


def test_status_on_a_terminal_is_a_table(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    serve({"mcpd/status": STATUS})

    lines = on_terminal("status", "--no-color").splitlines()

    assert lines[1].split() == ["NAME", "STATE", "TRANSPORT", "TOOLS", "CLIENTS", "CALLS", "PID", "SINCE"]
    assert lines[2].strip() == "NOTE"
    assert lines[3].startswith("✔  demo    ready    stdio      8")
    assert lines[4].strip() == "1 in flight"
    assert lines[5].startswith("…  broken  backoff  http       -")
    assert lines[6].strip() == "cannot connect, next try in 4 s"
    assert max(map(len, lines[1:])) <= 80
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[32m✔\x1b[0m" in on_terminal("status")


def test_status_in_json_is_the_result_as_the_daemon_wrote_it(serve: Any, capfd: Capture) -> None:
    text = '{"daemon":{"n":123456789012345678901234567890,"f":1.0},"servers":[]}'
    serve({"mcpd/status": lambda peer, _: peer.send(f'{{"jsonrpc":"2.0","id":1,"result":{text}}}\n'.encode())})

    assert main(["status", "--json"]) == 0

    assert capfd.readouterr().out == text + "\n"


def test_status_of_one_server_is_a_page_with_its_log(serve: Any, capfd: Capture) -> None:
    seen = serve({"mcpd/status": STATUS, "mcpd/logs": {"lines": [LINE]}})

    assert main(["status", "demo"]) == 0

    out = capfd.readouterr().out
    assert out.startswith("✔ demo: ready since 2020-01-01T00:00:00.000Z (")
    for line in (
        "     target: mcpd demo-server",
        "  transport: stdio, scope user",
        "    process: pid 8, run 1",
        "   protocol: modern 2026-07-28",
        "      calls: 3 calls, 1 in flight, 2 clients, 4 served so far",
    ):
        assert f"\n{line}\n" in out
    assert out.endswith("\n\n2020-01-01T10:00:00.000Z demo: hello\n")
    assert seen[1]["params"] == {"server": "demo", "tail": 10}


def test_status_of_a_server_that_is_not_there_suggests_another(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/status": STATUS})

    assert main(["status", "dmo"]) == 2
    assert capfd.readouterr().err == "error: there is no server 'dmo'\n  did you mean 'demo'?\n  try: mcpd ls\n"

    assert main(["--json", "status", "dmo"]) == 2
    assert json.loads(capfd.readouterr().err)["error"]["code"] == 1


def test_without_a_command_a_terminal_gets_the_status_or_the_help(serve: Any, home: Path) -> None:
    assert on_terminal().startswith("mcpd: one daemon")

    serve({"mcpd/status": STATUS})

    assert on_terminal("--no-color").startswith("mcpd 0.1.0, pid 7, up ")


def copies_in(*projects: str) -> dict[str, Any]:
    """Return a status with one copy per project, of which the last one runs."""
    rows = [{**DEMO, "scope": "project", "project": project, "state": "failed"} for project in projects]
    return {"daemon": DAEMON, "servers": [*rows[:-1], {**rows[-1], "state": "ready"}, BROKEN]}


def test_status_tells_the_copies_of_several_projects_apart(serve: Any, home: Path, capfd: Capture) -> None:
    serve({"mcpd/status": copies_in(f"{home}/shop", "/srv/a/very/long/way/to/the/site")})

    header, _, *lines = on_terminal("status", "--no-color").splitlines()[1:]
    assert header.split()[-2:] == ["SINCE", "PROJECT"]
    assert "TRANSPORT" not in header
    assert lines[0].endswith(" ~/shop")
    assert " …" in lines[2]
    assert lines[2].endswith("long/way/to/the/site")
    assert max(map(len, [header, *lines])) <= 80

    assert main(["status"]) == 0
    cells = [line.split("\t") for line in capfd.readouterr().out.splitlines()[1:]]
    assert [row[9] for row in cells] == [f"{home}/shop", "/srv/a/very/long/way/to/the/site", "-"]

    assert main(["status", "demo"]) == 0
    assert f"\n    project: {home}/shop\n" in capfd.readouterr().out


def test_a_path_that_was_searched_is_whole_in_get_and_short_in_lists(serve: Any, capfd: Capture) -> None:
    why = "command x not found in PATH /a:/b:/c:/d"
    rows = [{**BROKEN, "reason": why}]
    serve({"mcpd/status": {"daemon": DAEMON, "servers": rows}, "mcpd/servers": {"servers": rows}})

    assert main(["status"]) == 0
    assert "command x not found in PATH /a:/b:…, next try in 4 s\n" in capfd.readouterr().out

    assert main(["get", "broken"]) == 0
    assert f"note: {why}\n" in capfd.readouterr().out


def test_ls_names_a_server_once_however_many_copies_it_has(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/servers": copies_in("/a", "/b", "/c")})

    assert main(["ls"]) == 0

    assert [line.split("\t")[:2] for line in capfd.readouterr().out.splitlines()] == [
        ["demo", "ready, 3 copies"],
        ["broken", "backoff"],
    ]


def test_stop_says_how_many_copies_have_stopped(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/stop": {**DEMO, "state": "stopped", "pid": None, "copies": 3}})

    assert main(["stop", "demo"]) == 0

    assert capfd.readouterr().out == "· demo: stopped (3 copies)\n"


def test_why_loses_nothing_on_a_narrow_terminal(serve: Any, capfd: Capture) -> None:
    splits = "another project's folder (of the client's process 7)"
    fields = [
        {"field": "project", "value": "/srv/a/very/long/way/to/the/site/of/the/shop", "splits": splits},
        {"field": "may ask for", "value": "nothing"},
    ]
    serve({"mcpd/why": {"server": "demo", "scope": "project", "because": "b", "fields": fields, "copies": []}})

    assert on_terminal("why", "demo", "--no-color").splitlines()[-5:] == [
        "FIELD        VALUE",
        "     WHAT WOULD SPLIT IT",
        "project      /srv/a/very/long/way/to/the/site/of/the/shop",
        f"     {splits}",
        "may ask for  nothing",
    ]

    assert main(["why", "demo"]) == 0
    assert capfd.readouterr().out.endswith("may ask for\tnothing\t-\n")


def test_ls_lists_and_get_shows(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/servers": {"servers": [DEMO, BROKEN]}})

    assert main(["ls"]) == 0
    assert capfd.readouterr().out == "demo\tready\tstdio\tmcpd demo-server\nbroken\tbackoff\thttp\thttps://x\n"

    assert main(["ls", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"servers": [DEMO, BROKEN]}

    assert main(["get", "broken"]) == 0
    assert "\n       note: cannot connect\n" in capfd.readouterr().out

    assert main(["get", "--json", "demo"]) == 0
    assert json.loads(capfd.readouterr().out) == DEMO


def test_a_server_that_wants_a_sign_in_says_how(serve: Any, capfd: Capture) -> None:
    row = {
        "name": "far", "state": "needs_auth", "transport": "http", "target": "https://h/mcp", "scope": "user",
        "reason": "server 'far' wants a sign-in", "hint": "mcpd login far",
    }  # fmt: skip
    serve({"mcpd/servers": {"servers": [row]}, "mcpd/status": {"daemon": STATUS["daemon"], "servers": [row]}})

    assert main(["ls"]) == 0
    assert capfd.readouterr().out == "far\tneeds_auth\thttp\thttps://h/mcp\n"

    assert main(["status"]) == 0
    line = capfd.readouterr().out.splitlines()[1].split("\t")
    assert (line[0], line[-1]) == ("!", "server 'far' wants a sign-in, mcpd login far")

    assert main(["get", "far"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("! far: needs_auth\n")
    assert "\n       hint: mcpd login far\n" in out


def test_of_several_copies_the_one_that_wants_a_sign_in_comes_before_those_at_rest(serve: Any, capfd: Capture) -> None:
    rows = [{"name": "far", "state": state, "transport": "http", "target": "u"} for state in ("stopped", "needs_auth")]
    serve({"mcpd/servers": {"servers": rows}})

    assert main(["ls"]) == 0
    assert capfd.readouterr().out == "far\tneeds_auth, 2 copies\thttp\tu\n"


def test_start_and_stop_take_several_servers_and_go_on_after_a_failure(serve: Any, capfd: Capture) -> None:
    def start(peer: Peer, request: dict[str, Any]) -> None:
        if request["params"]["server"] == "demo":
            peer.answer(request, DEMO)
        else:
            data = {"class": "server_unavailable", "stderr": "first\nsecond\nthird"}
            peer.fail(request, 10, "cannot start", **data)

    seen = serve({"mcpd/start": start, "mcpd/stop": {**DEMO, "state": "stopped", "pid": None}})

    assert main(["start", "broken", "demo", "wrong"]) == 4
    out, err = capfd.readouterr()
    assert out == "✔ demo: ready (pid 8)\n"
    assert err == "error: cannot start\n  stderr: second | third\n" * 2
    assert [request["params"]["server"] for request in seen] == ["broken", "demo", "wrong"]

    assert main(["stop", "demo"]) == 0
    assert capfd.readouterr().out == "· demo: stopped\n"

    assert main(["start", "demo", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == DEMO


def test_logs_are_printed_and_followed(serve: Any, capfd: Capture) -> None:
    def logs(peer: Peer, request: dict[str, Any]) -> None:
        later = {"jsonrpc": "2.0", "method": "mcpd/log", "params": {**LINE, "text": "later"}}
        peer.answer(request, {"lines": [LINE]})
        if request["params"]["follow"]:
            peer.send({"jsonrpc": "2.0", "method": "other", "params": {}}, later)
            peer.close()

    seen = serve({"mcpd/logs": logs})

    assert main(["logs", "demo", "-n", "5"]) == 0
    assert capfd.readouterr().out == "2020-01-01T10:00:00.000Z demo: hello\n"
    assert seen[0]["params"] == {"tail": 5, "follow": False, "server": "demo"}

    assert main(["logs", "-f", "--json"]) == 6
    out, err = capfd.readouterr()
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["hello", "later"]
    assert json.loads(err)["error"]["class"] == "connection_lost"


def test_rpc_passes_parameters_and_result_on_unchanged(serve: Any, capfd: Capture, home: Path) -> None:
    result = '{"n":123456789012345678901234567890}'
    received: list[str] = []

    def rpc(peer: Peer, request: dict[str, Any]) -> None:
        received.append(str(request["params"]["n"]))
        peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})
        peer.send(f'{{"jsonrpc":"2.0","id":1,"result":{result}}}\n'.encode())

    serve({"any/method": rpc})

    assert main(["rpc", "any/method", '{"n":\n 98765432109876543210}']) == 0

    assert capfd.readouterr() == (result + "\n", '{"method":"notifications/progress","params":{"progress":1}}\n')
    (home / "params.json").write_text('{"n": 1}')
    assert main(["rpc", "any/method", f"@{home}/params.json"]) == 0
    assert received == ["98765432109876543210", "1"]


def test_rpc_shows_an_error_of_the_daemon(serve: Any, capfd: Capture) -> None:
    serve({})

    assert main(["rpc", "no/such", "--json"]) == 4

    assert json.loads(capfd.readouterr().err)["error"]["code"] == -32601


def test_fetch_prints_a_part_and_how_to_go_on(serve: Any, capfd: Capture) -> None:
    def fetch(peer: Peer, request: dict[str, Any]) -> None:
        offset = request["params"].get("offset", 0)
        view = {"bytes": 9, **({"nextOffset": offset + 3} if offset < 6 else {})}
        text = {"type": "text", "text": "abcdefghi"[offset : offset + 3]}
        peer.answer(request, {"content": [text], "_meta": {"mcpd/view": view}})

    seen = serve({"mcpd/fetch": fetch})

    assert main(["fetch", "h", "--offset", "3", "--max-bytes", "3"]) == 0
    assert capfd.readouterr() == ("def", "cut at byte 6 of 9; the next part: mcpd fetch h --offset 6\n")
    assert seen[0]["params"] == {"handle": "h", "offset": 3, "max_bytes": 3}

    assert main(["fetch", "h", "--all"]) == 0
    assert capfd.readouterr() == ("abcdefghi", "")


def test_version_knows_the_daemons_too(serve: Any, capfd: Capture) -> None:
    assert main(["version", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"version": "0.1.0", "daemon": None}

    serve({"mcpd/hello": {"version": 1, "daemon": {"version": "0.0.9", "pid": 7}}})

    assert main(["--version"]) == 0
    assert capfd.readouterr().out == "mcpd 0.1.0\ndaemon 0.0.9 (pid 7)\n"


def test_demo_shows_five_commands_and_runs_none(home: Path, capfd: Capture) -> None:
    assert main(["demo"]) == 0

    lines = capfd.readouterr().out.splitlines()
    assert [line.startswith("mcpd ") for line in lines] == [False, True, True, True, True, True]


def test_the_project_is_told_in_a_hello(serve: Any, home: Path) -> None:
    seen = serve({"mcpd/hello": {}, "mcpd/servers": {"servers": []}})

    assert main(["ls", "-q", "--project", f"{home}/p"]) == 0

    assert [request["method"] for request in seen] == ["mcpd/hello", "mcpd/servers"]
    assert seen[0]["params"]["project"] == f"{home}/p"


def test_a_timeout_of_the_command_line_ends_the_waiting(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/servers": lambda peer, _: peer.read()})

    assert main(["ls", "--timeout", "0.05"]) == 7

    assert "did not answer mcpd/servers" in capfd.readouterr().err


def test_the_configuration_is_checked_without_a_daemon(home: Path, capfd: Capture) -> None:
    file = home / "config.toml"
    file.write_text("[servers.x]\ncommand = 7\n")

    assert main(["config", "check", "--config", str(file), "--json"]) == 9
    error = json.loads(capfd.readouterr().err)["error"]
    assert (error["code"], error["class"], error["server"]) == (23, "misconfigured", "x")

    file.write_text('[servers.x]\ncommand = "true"\n')
    assert main(["config", "check", "--config", str(file)]) == 0
    assert main(["config", "path", "--config", str(file)]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == str(file)
    assert main(["config", "show", "x", "--config", str(file)]) == 0
    assert 'command = "true"' in capfd.readouterr().out
