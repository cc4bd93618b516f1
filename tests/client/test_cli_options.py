from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from mcpd_client.cli import options
from mcpd_client.cli.main import COMMANDS, GROUPS, load, main
from mcpd_client.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("status", ([], "status", [])),
        ("--json status demo", (["--json"], "status", ["demo"])),
        ("--socket /s -q status --json", (["--socket", "/s", "-q"], "status", ["--json"])),
        ("--socket=status ls", (["--socket=status"], "ls", [])),
        ("--project call call demo", (["--project", "call"], "call", ["demo"])),
        ("-h", (["-h"], None, [])),
        ("", ([], None, [])),
        ("--socket", (["--socket"], None, [])),
    ],
)
def test_global_options_may_come_before_the_command(
    argv: str, expected: tuple[list[str], str | None, list[str]]
) -> None:
    assert options.split_command(argv.split()) == expected


def test_an_unknown_option_before_the_command_is_an_error() -> None:
    with pytest.raises(UsageError, match="--jsn"):
        options.split_command(["--jsn", "status"])


@pytest.mark.parametrize(
    ("argv", "picked", "rest"),
    [
        ("demo echo --json -o x a=1", {"output": "x"}, "demo echo --json a=1"),
        ("-ox demo echo", {"output": "x"}, "demo echo"),
        ("--output=x demo echo --socket /s -v", {"output": "x", "socket": "/s", "verbose": True}, "demo echo"),
        ("demo echo -- -o x --socket /s", {}, "demo echo -- -o x --socket /s"),
        ("demo echo --field -v", {"verbose": True}, "demo echo --field"),
    ],
)
def test_options_of_the_client_are_picked_out_of_the_daemons(argv: str, picked: dict[str, object], rest: str) -> None:
    values = {"-o": "output", "--output": "output", "--socket": "socket"}

    assert options.pick(argv.split(), values, {"-v": "verbose"}) == (picked, rest.split())


def test_an_option_without_its_value_is_an_error() -> None:
    with pytest.raises(UsageError, match="--socket needs a value"):
        options.pick(["--socket"], {"--socket": "socket"}, {})


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf", ""])
def test_a_timeout_is_a_number_of_seconds(text: str) -> None:
    with pytest.raises(UsageError, match="--timeout takes seconds"):
        options.parse_seconds(text)


def test_options_and_arguments_come_in_any_order() -> None:
    parser = options.make_parser("restart", "restart servers", load("restart"))

    parsed = options.parse(parser, ["a", "--json", "b", "--timeout", "2.5", "c"])

    assert (parsed.servers, parsed.json, parsed.timeout) == (["a", "b", "c"], True, 2.5)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_examples(name: str, capfd: pytest.CaptureFixture[str], home: Path) -> None:
    assert main([name, "--help"]) == 0

    text = capfd.readouterr().out
    assert text.startswith(f"usage: mcpd {name}")
    assert f"\n  mcpd {name}" in text.partition("examples:")[2]
    assert "exit codes:\n  0   done" in text
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 40
    assert main(["help", name]) == 0
    assert capfd.readouterr().out == text


def test_every_command_is_listed(capfd: pytest.CaptureFixture[str], home: Path) -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
    for argv in ([], ["help"], ["-h"], ["--help", "--json"]):
        assert main(argv) == 0
        text = capfd.readouterr().out
        assert [name for name in COMMANDS if f"\n  {name} " not in text] == []


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("stat", "status"), ("sta", "status"), ("statsu", "status"), ("cal", "call"), ("fecth", "fetch")],
)
def test_a_mistyped_command_is_recognised(
    typed: str, meant: str, capfd: pytest.CaptureFixture[str], home: Path
) -> None:
    assert main([typed]) == 2

    assert capfd.readouterr().err == (
        f"error: there is no command '{typed}'\n  did you mean '{meant}'?\n  try: mcpd help\n"
    )


@pytest.mark.parametrize(
    "argv",
    [
        ["xyzzy"],
        ["status", "a", "b"],
        ["--nonsense"],
        ["status", "--nonsense"],
        ["start"],
        ["logs", "-n", "many"],
        ["status", "--timeout", "soon"],
        ["rpc", "m", "{"],
        ["rpc", "m", "7"],
        ["config", "eat"],
        ["config", "check", "demo"],
        ["fetch", "h", "--offset", "-1"],
        ["call", "demo", "echo", "-o"],
        ["call", "demo", "echo", "--save", "/dev/null/x"],
        ["call", "demo", "echo", "text=@/nowhere/file"],
        ["status", "\udcff"],
    ],
)
def test_a_usage_error_is_told_in_up_to_three_lines_and_in_json(
    argv: list[str], capfd: pytest.CaptureFixture[str], home: Path
) -> None:
    assert main(argv) == 2
    out, err = capfd.readouterr()
    assert (out, err[:7]) == ("", "error: ")
    assert err.count("\n") <= 3

    assert main([*argv[:1], "--json", *argv[1:]] if argv[0] != "--nonsense" else ["--json", *argv]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert json.loads(err)["error"]["class"] == "bad_request"


def test_what_is_unexpected_is_one_line_and_a_traceback_on_request(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], home: Path
) -> None:
    monkeypatch.setitem(COMMANDS, "demo", ("no_such_module", "show commands to try"))

    assert main(["demo"]) == 1
    err = capfd.readouterr().err
    assert err.startswith("error: unexpected: ModuleNotFoundError: ")
    assert "Traceback" not in err
    assert err.endswith("\n  run it again with -v to see where\n")

    assert main(["-v", "demo"]) == 1
    assert "Traceback" in capfd.readouterr().err
