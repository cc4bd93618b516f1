"""Each check of the doctor: what it makes of what it finds."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

from mcpd.config.load import load
from mcpd.doctor import duplicates, entries, machine, servers, sessions, tools
from mcpd.errors import ServerUnavailable
from mcpd_client.cli.main import COMMANDS


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def look(tmp_path: Path, text: str, resolve=lambda server: None):
    config = load(str(write(tmp_path, text)), {"HOME": str(tmp_path)})
    return list(entries.examine(config, [*config.servers, *config.wrong], resolve))


def test_a_right_file_is_ok(tmp_path):
    assert [check.status for check in look(tmp_path, '[servers.a]\ncommand = "true"\n')] == ["ok"]


def test_a_wrong_key_fails_its_server_with_the_nearest_key(tmp_path):
    check = next(check for check in look(tmp_path, '[servers.a]\ncommand = "true"\nargz = []\n') if check.status == "fail")
    assert (check.server, check.hint) == ("a", "did you mean args?")


def test_a_file_that_is_no_toml_fails_with_its_line(tmp_path):
    assert [check.status for check in look(tmp_path, "[servers.a\n")] == ["fail"]


def test_a_file_that_others_may_write_fails(tmp_path):
    path = write(tmp_path, '[servers.a]\ncommand = "true"\n')
    path.chmod(0o622)
    config = load(str(path), {"HOME": str(tmp_path)})
    found = [check for check in entries.examine(config, [], lambda server: None) if check.status == "fail"]
    assert found[0].hint == f"chmod 600 {path}"


def test_a_secret_in_a_readable_file_is_told_without_the_secret(tmp_path):
    path = write(tmp_path, '[servers.a]\nurl = "https://a.example/mcp"\nheaders = { Authorization = "Bearer planted-value" }\n')
    path.chmod(0o644)
    config = load(str(path), {"HOME": str(tmp_path)})
    found = list(entries.examine(config, [], lambda server: None))
    assert {check.status for check in found} >= {"warn"}
    assert "planted-value" not in repr(found)
    assert any("others may read" in check.detail for check in found)


def test_a_command_that_is_not_there_fails_with_what_to_do(tmp_path):
    def resolve(server):
        raise ServerUnavailable("command nope not found in PATH /bin", server="a", hint="install nope")

    check = look(tmp_path, '[servers.a]\ncommand = "nope"\n', resolve)[-1]
    assert (check.status, check.hint, check.server) == ("fail", "install nope", "a")


def test_a_server_that_has_been_started_is_not_resolved_again_but_its_habits_are_looked_at(tmp_path):
    def resolve(server):
        raise AssertionError("it was started")

    config = load(str(write(tmp_path, '[servers.a]\ncommand = "npx"\nargs = ["@x/y"]\n')), {"HOME": str(tmp_path)})
    assert [check.label for check in entries.examine(config, ["a"], resolve, ["a"]) if check.status != "ok"] == ["npx"]


def test_a_hint_names_only_commands_that_there_are(tmp_path):
    hints = [
        *(check.hint for check in look(tmp_path, '[servers.a]\ncommand = "npx"\nargs = ["x"]\n[servers.b]\ncommand = 5\n')),
        *(check.hint for check in entries.known_programs(load(str(tmp_path / "config.toml"), {}), lambda program: None)),
        *(check.hint for check in tools.examine("a", [{"name": "x__" + "y" * 70, "inputSchema": {}}])),
        *(check.hint for check in machine.examine(str(tmp_path / "s"), None, "")),
        *(check.hint for check in entries.examine(load(None, {"HOME": str(tmp_path)}), [], lambda server: None)),
        *(check.hint for check in servers.examine({"a": {"seconds": 9, "row": {"tools_problems": ["x"]}}})),
    ]
    named = {word for hint in hints if hint for word in re.findall(r"\bmcpd ([a-z-]+)", hint)}
    assert named
    assert named <= set(COMMANDS)


def test_npx_that_would_ask_is_told_of(tmp_path):
    assert any(check.label == "npx" for check in look(tmp_path, '[servers.a]\ncommand = "npx"\nargs = ["@x/y"]\n'))
    assert not any(check.label == "npx" for check in look(tmp_path, '[servers.a]\ncommand = "npx"\nargs = ["-y", "@x/y"]\n'))


def test_a_container_that_stays_is_told_of(tmp_path):
    found = look(tmp_path, '[servers.a]\ncommand = "docker"\nargs = ["run", "-i", "image"]\n')
    assert [check.label for check in found if check.status == "warn"] == ["docker"]


def test_the_programs_behind_starters_are_looked_for(tmp_path):
    config = load(str(write(tmp_path, '[servers.a]\ncommand = "npx"\nargs = ["-y", "x"]\n')), {"HOME": str(tmp_path)})
    assert next(entries.known_programs(config, lambda program: None)).status == "warn"
    assert next(entries.known_programs(config, lambda program: "/bin/node")).status == "ok"


def test_names_that_hosts_drop_are_told_by_host():
    found = {check.detail for check in tools.examine("a", [{"name": "x__y"}, {"name": "t" * 61}, {"name": "fine"}])}
    assert "grok drops x__y" in found
    assert f"cursor drops {'t' * 61}" in found
    assert not any("fine" in detail for detail in found)


def test_schemas_that_models_refuse_are_told_of():
    schema = {"type": "object", "anyOf": [{"$ref": "https://elsewhere.example/x"}]}
    found = [check.detail for check in tools.examine("a", [{"name": "t", "inputSchema": schema}])]
    assert found == ["the schema's root has anyOf, oneOf or allOf: t", "the schema refers to something outside of itself: t"]


def test_a_server_that_starts_is_ok_and_a_slow_one_is_not_quite():
    row = {"revision": "2025-11-25", "tools": 2}
    found = servers.examine({"a": {"seconds": 0.2, "row": row}, "b": {"seconds": 9.0, "row": row}})
    assert [check.status for check in found] == ["ok", "warn"]


def test_a_server_that_does_not_start_fails_with_the_daemons_words():
    [check] = servers.examine({"a": {"seconds": 1, "error": {"message": "server 'a' could not be started", "hint": "mcpd logs a"}}})
    assert (check.status, check.hint) == ("fail", "mcpd logs a")


def test_an_expired_token_fails():
    rows = [{"server": "a", "state": "expired", "refreshable": False}, {"server": "b", "state": "not_signed_in"}]
    assert [(check.status, check.hint) for check in sessions.examine(rows)] == [("fail", "mcpd login a")]


def test_a_token_that_nothing_renews_is_told_of_before_it_expires():
    rows = [{"server": "a", "state": "signed_in", "refreshable": False, "expires_in_seconds": 60, "issuer": "https://as.example"}]
    assert [check.status for check in sessions.examine(rows)] == ["warn"]


def test_a_host_that_starts_the_same_itself_is_told_of(tmp_path):
    config = load(str(write(tmp_path, '[servers.a]\ncommand = "npx"\nargs = ["-y", "x"]\n')), {"HOME": str(tmp_path)})
    owns = [duplicates.Own("codex", "mine", ("npx", "-y", "x")), duplicates.Own("codex", "other", ("npx", "-y", "z"))]
    assert ["codex starts 'mine' itself" in check.detail for check in duplicates.examine(config, owns)] == [True]


def test_a_folder_that_is_open_to_others_fails(tmp_path):
    tmp_path.chmod(0o755)
    check = next(machine.examine(str(tmp_path / "mcpd.sock"), None, "no daemon"))
    assert (check.status, check.hint) == ("fail", f"chmod 700 {tmp_path}")


def test_a_socket_that_is_left_over_is_told_of(tmp_path):
    tmp_path.chmod(0o700)
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
    Path(path).chmod(0o600)
    labels = {check.label: check for check in machine.examine(path, None, "no daemon")}
    assert labels["socket"].status == "warn"
    assert labels["socket"].hint == "the next start replaces it: mcpd up"


def test_another_version_that_runs_is_told_of(tmp_path):
    tmp_path.chmod(0o700)
    found = list(machine.examine(str(tmp_path / "s"), {"version": "0.0.1", "pid": os.getpid()}, ""))
    assert any(check.status == "warn" and "0.0.1 runs" in check.detail for check in found)


def test_the_environment_of_a_process_is_read_as_it_was_started():
    assert machine.environ_of(os.getpid())["PATH"]
    assert machine.environ_of(2**22 + 1) is None
