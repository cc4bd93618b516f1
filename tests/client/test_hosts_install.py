from __future__ import annotations

import json
import os
import re
import stat
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcpd_client.cli.main import main
from mcpd_client.hosts import known
from tests.client.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable

Capture = pytest.CaptureFixture[str]
ALL = [host.name for host in known.HOSTS]
ROWS = {"servers": [{"name": "demo"}, {"name": "git-hub"}, {"name": "demo"}]}
# Notes its arguments and does what the host's own program does with them; `lazy` claims to and does nothing.
PROGRAM = """\
#!{python}
import json, os, sys
arguments = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps([{name!r}, *arguments, os.getcwd()]) + "\\n")
how = {how!r}
if how == "broken":
    sys.exit("one\\nit is broken")
path = os.path.join(os.environ["HOME"], ".claude.json")
whole = json.load(open(path)) if os.path.exists(path) else {{}}
servers = whole.setdefault("mcpServers", {{}})
if arguments[1] == "remove":
    del servers[arguments[4]]
elif arguments[4] in servers:
    sys.exit("already exists")
else:
    servers[arguments[4]] = {{"type": "stdio", "command": arguments[6], "args": arguments[7:], "env": {{}}}}
if how != "lazy":
    json.dump(whole, open(path, "w"))
"""


@pytest.fixture(autouse=True)
def script(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The `mcpd` that seems to run, and a PATH without any host's program."""
    path = home / "opt" / "mcpd"
    path.parent.mkdir()
    path.touch(0o755)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setenv("PATH", str(home / "bin"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GROK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(home)
    return str(path)


@pytest.fixture
def put_program(home: Path) -> Callable[..., Callable[[], list[list[str]]]]:
    """Put a program of a host on the PATH; returns what tells how it has been run."""

    def put(name: str, how: str = "") -> Callable[[], list[list[str]]]:
        log, path = home / f"{name}.log", home / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(PROGRAM.format(python=sys.executable, log=str(log), name=name, how=how))
        path.chmod(0o755)
        return lambda: [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    return put


def entries_of(home: Path, name: str) -> dict[str, Any]:
    """Return what a host would read."""
    host = known.find(name)
    text = Path(host.files("user", "", {"HOME": str(home)})[-1]).read_text()
    whole: Any = tomllib.loads(text) if host.is_toml else json.loads(text)
    entries: dict[str, Any] = whole[host.keys[0]]
    return entries


def backups(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.mcpd-backup-*"))


@pytest.mark.parametrize("name", ALL)
def test_every_host_gets_an_entry_per_server_and_loses_them_again(
    name: str, serve: Any, home: Path, script: str, capfd: Capture
) -> None:
    serve({"mcpd/servers": ROWS})

    assert main(["install", name, "--yes"]) == 0

    host = known.find(name)
    assert {key: host.command(entry) for key, entry in entries_of(home, name).items()} == {
        "demo": [script, "bridge", "demo"],
        "git-hub": [script, "bridge", "git-hub"],
    }
    file = Path(host.files("user", "", os.environ)[-1])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (backups(file), capfd.readouterr().err) == ([], f"{host.title}: demo added, git-hub added\n")
    before = file.read_bytes()

    assert main(["install", name, "--yes"]) == 0
    assert file.read_bytes() == before
    assert "demo is already there\n" in capfd.readouterr().out

    assert main(["uninstall", name, "--yes"]) == 0
    whole = tomllib.loads(file.read_text()) if host.is_toml else json.loads(file.read_text())
    assert whole in ({}, {host.keys[0]: {}})
    assert [each.read_bytes() for each in backups(file)] == [before]


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("claude-code", {"type": "stdio", "command": "$", "args": ["bridge", "demo"]}),
        ("codex", {"command": "$", "args": ["bridge", "demo"]}),
        ("cursor", {"command": "$", "args": ["bridge", "demo"]}),
        ("vscode", {"type": "stdio", "command": "$", "args": ["bridge", "demo"]}),
        ("gemini", {"command": "$", "args": ["bridge", "demo"]}),
        ("opencode", {"type": "local", "command": ["$", "bridge", "demo"]}),
        ("grok", {"command": "$", "args": ["bridge", "demo"]}),
        ("zed", {"source": "custom", "command": "$", "args": ["bridge", "demo"]}),
        ("windsurf", {"command": "$", "args": ["bridge", "demo"]}),
    ],
)
def test_an_export_is_what_the_host_reads(
    name: str, entry: dict[str, object], serve: Any, script: str, capfd: Capture
) -> None:
    serve({"mcpd/servers": ROWS})

    assert main(["export", name, "--server", "demo"]) == 0

    host, (out, err) = known.find(name), capfd.readouterr()
    found = tomllib.loads(out) if host.is_toml else json.loads(out)
    assert json.dumps(found).replace(script, "$") == json.dumps({host.keys[0]: {"demo": entry}})
    assert err == f"# for {host.files('user', '', os.environ)[-1]}\n"

    assert main(["export", name, "--server", "demo", "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert (answer["host"], answer["snippet"]) == (name, out)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("claude-code", ".mcp.json"),
        ("codex", ".codex/config.toml"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("gemini", ".gemini/settings.json"),
        ("opencode", "opencode.json"),
        ("grok", ".grok/config.toml"),
        ("zed", ".zed/settings.json"),
    ],
)
def test_a_project_has_a_file_of_its_own(name: str, path: str, home: Path, capfd: Capture) -> None:
    project = home / "p"
    project.mkdir()

    assert main(["install", name, "--aggregate", "--yes", "--scope", "project", "--project", "p"]) == 0

    assert '"mcpd"' in (project / path).read_text() or "mcp_servers.mcpd" in (project / path).read_text()
    assert main(["uninstall", name, "--yes", "--scope", "project", "--project", str(project)]) == 0
    assert "bridge" not in (project / path).read_text()


def test_a_host_without_project_files_says_so(capfd: Capture) -> None:
    assert main(["install", "windsurf", "--aggregate", "--scope", "project"]) == 2
    assert capfd.readouterr().err.startswith("error: Windsurf has no servers of one project\n")


def test_the_daemon_is_asked_only_for_names(capfd: Capture) -> None:
    assert main(["export", "cursor", "--aggregate"]) == 0
    assert main(["export", "cursor", "--server", "mcpd"]) == 0
    assert main(["uninstall", "cursor"]) == 0
    assert main(["export", "cursor"]) == 6


def test_all_servers_can_be_one_entry_of_any_name(home: Path, script: str) -> None:
    assert main(["install", "cursor", "--aggregate", "--yes"]) == 0
    assert main(["install", "cursor", "--aggregate", "--name", "all", "--yes"]) == 0

    assert entries_of(home, "cursor") == {name: {"command": script, "args": ["bridge"]} for name in ("mcpd", "all")}


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["install", "zde", "--aggregate"], "did you mean 'zed'?"),
        (["install", "code", "--aggregate"], "did you mean 'claude-code'?"),
        (["install", "cursor", "--server", "dmo"], "did you mean 'demo'?"),
        (["install", "cursor", "--name", "x"], "--name is for one entry"),
        (["install", "cursor", "--mode", "search"], "--mode is for all servers"),
        (["install", "cursor", "--aggregate", "--server", "demo"], "not allowed with"),
        (["install", "grok", "--aggregate", "--name", "a__b"], "does not take 'a__b'"),
        (["install", "codex", "--aggregate", "--name", "a b"], "does not take 'a b'"),
        (["install", "cursor", "--aggregate", "--scope", "world"], "invalid choice"),
    ],
)
def test_what_cannot_be_installed_is_said(
    argv: list[str], complaint: str, serve: Any, home: Path, capfd: Capture
) -> None:
    serve({"mcpd/servers": ROWS})

    assert main([*argv, "--yes"]) == 2

    assert complaint in capfd.readouterr().err
    assert not (home / ".cursor").exists()


def test_an_entry_for_all_can_show_them_by_search(home: Path) -> None:
    assert main(["install", "cursor", "--aggregate", "--mode", "search", "--yes"]) == 0

    assert entries_of(home, "cursor")["mcpd"]["args"] == ["bridge", "--mode", "search"]


def test_without_any_server_there_is_nothing_to_install(serve: Any, capfd: Capture) -> None:
    serve({"mcpd/servers": {"servers": []}})

    assert main(["install", "cursor", "--yes"]) == 2
    assert capfd.readouterr().err.startswith("error: no servers are enabled\n")


def test_a_socket_of_ones_own_is_named_in_the_entry(home: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["--socket", "s", "install", "cursor", "--aggregate", "--name", "a", "--yes", "--config", "c"]) == 0
    monkeypatch.setenv("MCPD_SOCKET", "/run/x")
    assert main(["install", "cursor", "--aggregate", "--name", "b", "--yes"]) == 0

    entries = entries_of(home, "cursor")
    assert entries["a"]["args"] == ["bridge", "--socket", str(home / "s"), "--config", str(home / "c")]
    assert entries["b"]["args"] == ["bridge", "--socket", "/run/x"]


def test_nothing_is_changed_without_a_yes(home: Path, capfd: Capture) -> None:
    assert main(["install", "cursor", "--aggregate", "--dry-run"]) == 0
    shown = capfd.readouterr().out
    assert shown.startswith(f"Cursor: {home}/.cursor/mcp.json\n--- {home}/.cursor/mcp.json\n+++ ")
    assert '\n+    "mcpd": {\n' in shown

    assert main(["install", "cursor", "--aggregate"]) == 2
    out, err = capfd.readouterr()
    assert (out, err.splitlines()[0]) == (shown, "error: nobody can be asked: this is not a terminal")
    assert not (home / ".cursor").exists()


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("Yes", 0), ("", 8), ("n", 8), ("\x04", 8)])
def test_at_a_terminal_there_is_a_question(answer: str, code: int, home: Path) -> None:
    with Terminal("install", "cursor", "--aggregate") as terminal:
        terminal.read_until('+    "mcpd": {')
        terminal.answer("Make these changes? [y/N] ", answer)
        assert terminal.finish() == code

    assert (home / ".cursor/mcp.json").exists() == (code == 0)


def test_json_is_one_line_and_the_diff_is_in_it(home: Path, script: str, capfd: Capture) -> None:
    assert main(["install", "cursor", "zed", "--aggregate", "--yes", "--json"]) == 0

    out, err = capfd.readouterr()
    assert (out.count("\n"), err) == (1, "")
    cursor, zed = json.loads(out)["hosts"]
    assert cursor.pop("diff").startswith("---")
    assert cursor == {
        "host": "cursor",
        "scope": "user",
        "file": f"{home}/.cursor/mcp.json",
        "entries": [{"name": "mcpd", "action": "add", "command": [script, "bridge"]}],
        "commands": [],
        "changed": True,
        "failed": False,
        "backup": None,
    }
    assert zed["changed"]

    assert main(["uninstall", "cursor", "--dry-run", "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert (answer["dry_run"], answer["hosts"][0]["changed"]) == (True, False)
    assert answer["hosts"][0]["entries"] == [{"name": "mcpd", "action": "remove", "command": []}]


def test_an_entry_of_the_hosts_own_is_replaced_only_by_force(
    serve: Any, home: Path, script: str, capfd: Capture
) -> None:
    serve({"mcpd/servers": ROWS})
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {\n  "demo": {"command": "/x/npx", "args": ["-y"], "env": {"A": "b"}} // mine\n}}')
    before = file.read_bytes()

    assert main(["install", "cursor", "--yes"]) == 8
    assert "demo: the host starts npx itself under this name, left as it is; --force" in capfd.readouterr().out
    entries = json.loads(file.read_text().replace("// mine", ""))["mcpServers"]
    assert entries["demo"]["env"] == {"A": "b"}
    assert entries["git-hub"] == {"command": script, "args": ["bridge", "git-hub"]}
    assert [each.read_bytes() for each in backups(file)] == [before]

    assert main(["install", "cursor", "--yes", "--force"]) == 0
    assert json.loads(file.read_text())["mcpServers"]["demo"] == {"command": script, "args": ["bridge", "demo"]}
    assert len(backups(file)) == 2


def test_our_own_entry_is_brought_up_to_date_and_keeps_what_else_it_says(home: Path, script: str) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(
        '{\n  "mcpServers": {\n    "mcpd": {"command": "/old/mcpd", "args": ["bridge"], "timeout": 5} // mine\n  }\n}'
    )

    assert main(["install", "cursor", "--aggregate", "--yes"]) == 0

    assert file.read_text() == (
        f'{{\n  "mcpServers": {{\n    "mcpd": {{"command": "{script}", "args": ["bridge"], "timeout": 5}} // mine\n  }}\n}}'
    )


def test_uninstall_takes_only_what_starts_our_bridge(home: Path) -> None:
    file = home / ".codex/config.toml"
    file.parent.mkdir()
    theirs = "# mine\n[mcp_servers.a]\ncommand = 'mcpd'\nargs = ['call', 'bridge']\n\n[mcp_servers.b]\nurl = 'https://mcpd/bridge'\n"
    ours = "\n[mcp_servers.c]\ncommand = 'mcpd'\nargs = ['--socket', '/s', 'bridge', 'x']\nenv = { A = 'b' }\n"
    file.write_text(theirs + ours)

    assert main(["uninstall", "codex", "--yes"]) == 0

    assert file.read_text() == theirs


def test_no_secret_is_shown(home: Path, capfd: Capture) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(
        '{"mcpServers": {\n"a": {"command": "x",\n"env": {"N": "s1"}, "headers": {"X": "s2"},\n'
        '"args": ["--token", "s3", "--key=sk-s4", "API_KEY=s5", "https://u:s6@h/"], "password": "s7",\n'
        '"b": ["--header", "X-Api-Key: s8", "--header=x-api-key:s9"]\n// "API_TOKEN": "t0"\n/* token = t1 */ // kept\n}\n}}'
    )
    grok = home / ".grok/config.toml"
    grok.parent.mkdir()
    grok.write_text(
        '[mcp_servers.a]\nenv = { N = "s1" }\nargs = ["--token", "s2"]\nheaders.X = "s3"\n'
        'url = "https://h/?api_key=s4"\nplain = "kept"\n'
        '# token = "t2"\n[[profiles]]\nname = "kept"\ntoken = "t3"\n[profiles.env]\nA = "t4"\n'
    )

    assert main(["install", "cursor", "grok", "--aggregate", "--dry-run"]) == 0
    assert main(["install", "cursor", "grok", "--aggregate", "--dry-run", "--json"]) == 0

    shown = capfd.readouterr().out
    assert re.findall(r"\b[st][0-9]\b", shown) == []
    assert "*****" in shown
    assert "kept" in shown


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("cursor", ".cursor/mcp.json", b"{'mcpServers': {}}"),
        ("cursor", ".cursor/mcp.json", b'{"mcpServers": []}'),
        ("cursor", ".cursor/mcp.json", b"[]"),
        ("cursor", ".cursor/mcp.json", b"\xff\xfe{\0}\0"),
        ("codex", ".codex/config.toml", b"[mcp_servers"),
        ("codex", ".codex/config.toml", b"mcp_servers = 1"),
        ("codex", ".codex/config.toml", b"mcp_servers = {}"),
    ],
)
def test_a_file_that_cannot_be_understood_is_left_alone(
    name: str, path: str, text: bytes, home: Path, capfd: Capture
) -> None:
    file = home / path
    file.parent.mkdir()
    file.write_bytes(text)

    # A host before it in the list is not touched either.
    assert main(["install", "zed", name, "--aggregate", "--yes"]) == 9

    assert str(file) in capfd.readouterr().err
    assert file.read_bytes() == text
    assert not (home / ".config").exists()
    assert list(file.parent.iterdir()) == [file]


def test_a_linked_file_stays_a_link_and_keeps_its_mode(home: Path) -> None:
    target, file = home / "dotfiles/cursor.json", home / ".cursor/mcp.json"
    target.parent.mkdir()
    file.parent.mkdir()
    target.write_text("{}")
    target.chmod(0o640)
    file.symlink_to("../dotfiles/cursor.json")

    assert main(["install", "cursor", "--aggregate", "--yes"]) == 0

    assert file.is_symlink()
    assert "bridge" in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert [stat.S_IMODE(each.stat().st_mode) for each in backups(target)] == [0o640]
    assert sorted(each.name for each in file.parent.iterdir()) == ["mcp.json"]


def test_a_link_to_nothing_gets_something_to_point_to(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.symlink_to(home / "dotfiles/cursor.json")

    assert main(["install", "cursor", "--aggregate", "--yes"]) == 0

    assert "bridge" in (home / "dotfiles/cursor.json").read_text()


def test_a_file_that_may_not_be_written_is_left_alone_and_the_others_are_not(home: Path, capfd: Capture) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text("{}")
    file.chmod(0o444)

    assert main(["install", "cursor", "zed", "--aggregate", "--yes", "--json"]) == 9

    out, err = capfd.readouterr()
    assert json.loads(err)["error"]["class"] == "host_file"
    assert f"{file} may not be written" in err
    assert [host["failed"] for host in json.loads(out)["hosts"]] == [True, False]
    assert file.read_text() == "{}"


def test_the_hosts_own_program_does_it_where_there_is_one(
    serve: Any, home: Path, script: str, put_program: Any, capfd: Capture
) -> None:
    serve({"mcpd/servers": ROWS})
    runs = put_program("claude")
    (home / ".claude.json").write_text('{"mcpServers": {"git-hub": {"command": "npx", "args": []}}, "history": []}')

    assert main(["install", "claude-code", "--yes", "--force"]) == 0

    assert [run[1:-1] for run in runs()] == [
        ["mcp", "add", "-s", "user", "demo", "--", script, "bridge", "demo"],
        ["mcp", "remove", "-s", "user", "git-hub"],
        ["mcp", "add", "-s", "user", "git-hub", "--", script, "bridge", "git-hub"],
    ]
    out, err = capfd.readouterr()
    assert f"\n$ claude mcp add -s user demo -- {script} bridge demo\n" in out
    assert "history" in backups(home / ".claude.json")[0].read_text()
    assert err.startswith("Claude Code: demo added, git-hub replaced; before: ")

    assert main(["install", "claude-code", "--yes"]) == 0
    assert len(runs()) == 3
    assert main(["uninstall", "claude-code", "--yes"]) == 0
    assert json.loads((home / ".claude.json").read_text()) == {"mcpServers": {}, "history": []}


@pytest.mark.parametrize(
    ("how", "complaint"),
    [("broken", "failed\n  it is broken"), ("lazy", "claude has not made the change of mcpd")],
)
def test_a_program_that_fails_is_not_believed(how: str, complaint: str, put_program: Any, capfd: Capture) -> None:
    put_program("claude", how)

    assert main(["install", "claude-code", "--aggregate", "--yes"]) == 9

    assert complaint in capfd.readouterr().err


def test_an_entry_of_ours_that_says_more_is_not_left_to_a_program_that_loses_it(
    home: Path, script: str, put_program: Any
) -> None:
    runs = put_program("claude")
    entry = {"type": "stdio", "command": "/old/mcpd", "args": ["bridge"], "env": {}}
    file = home / ".claude.json"
    for more in ({"MCPD_NO_AUTOSTART": "1"}, {}):
        file.write_text(json.dumps({"mcpServers": {"mcpd": entry | {"env": more}}}))

        assert main(["install", "claude-code", "--aggregate", "--yes"]) == 0

        found = entries_of(home, "claude-code")["mcpd"]
        assert found == entry | {"command": script, "env": more}
        assert bool(runs()) is not bool(more)


def test_a_file_with_comments_is_not_left_to_a_program_that_loses_them(
    home: Path, put_program: Any, capfd: Capture
) -> None:
    runs = put_program("grok")
    file = home / ".grok/config.toml"
    file.parent.mkdir()
    file.write_text("# mine\n")

    assert main(["install", "grok", "--aggregate", "--yes"]) == 0

    assert runs() == []
    assert file.read_text().startswith("# mine\n\n[mcp_servers.mcpd]\n")


def test_what_else_starts_the_same_server_is_told(home: Path, serve: Any, capfd: Capture) -> None:
    serve({"mcpd/servers": ROWS})
    (home / ".mcp.json").write_text('{"mcpServers": {"demo": {"command": "npx"}}}')
    local = {"projects": {str(home): {"mcpServers": {"git-hub": {"command": "npx"}, "x": {"command": "npx"}}}}}
    (home / ".claude.json").write_text(json.dumps(local))
    assert main(["install", "claude-code", "--yes"]) == 0
    err = capfd.readouterr().err
    assert f"{home}/.claude.json, for {home} alone, has an entry git-hub of its own, too\n" in err
    assert " x of its own" not in err
    assert f"{home}/.mcp.json has an entry demo of its own, too\n" in err

    assert main(["install", "claude-code", "--aggregate", "--yes"]) == 0
    assert "Claude Code also has our entries demo, git-hub: tools will be there twice\n" in capfd.readouterr().err


def test_opencode_entries_go_where_its_second_version_has_them(home: Path) -> None:
    file = home / ".config/opencode/opencode.jsonc"
    file.parent.mkdir(parents=True)
    file.write_text('{"mcp": {"servers": {"a": {"type": "local", "command": ["x"]}}}}')

    assert main(["install", "opencode", "--aggregate", "--yes"]) == 0

    assert sorted(json.loads(file.read_text())["mcp"]["servers"]) == ["a", "mcpd"]
    file.write_text('{"mcp": {"servers": {"type": "local", "command": ["x"]}}}')
    assert main(["install", "opencode", "--aggregate", "--yes"]) == 0
    assert sorted(json.loads(file.read_text())["mcp"]) == ["mcpd", "servers"]
