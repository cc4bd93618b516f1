from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from mcpd_client.hosts import files
from mcpd_client.hosts.bridge import is_bridge, own_command
from mcpd_client.hosts.files import HostFileError
from mcpd_client.hosts.known import find

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "command",
    [
        "mcpd bridge",
        "mcpd bridge demo",
        "/opt/x/bin/mcpd bridge a b --mode search",
        "mcpd --socket /s bridge",
        "/usr/bin/python3 -P -m mcpd_client bridge demo",
        "python -I -m mcpd bridge",
    ],
)
def test_our_bridge_is_recognised(command: str) -> None:
    assert is_bridge(command.split())


@pytest.mark.parametrize(
    "command",
    [
        "",
        "mcpd",
        "mcpd daemon",
        "mcpd call demo bridge",
        "mcpd --what bridge",
        "mcpd-bridge bridge",
        "npx mcpd bridge",
        "python -m other bridge",
        "python mcpd bridge",
        "socat bridge",
    ],
)
def test_nothing_else_is_taken_for_it(command: str) -> None:
    assert not is_bridge(command.split())


def test_the_command_is_the_path_that_stays(home: Path) -> None:
    script = home / "venvs/x/bin/mcpd"
    script.parent.mkdir(parents=True)
    script.touch(0o755)
    bin_folder = home / "bin"
    bin_folder.mkdir()
    (bin_folder / "mcpd").symlink_to(script)

    assert own_command(str(script), {"PATH": "/nowhere"}) == [str(script)]
    assert own_command(str(script), {"PATH": str(bin_folder)}) == [str(bin_folder / "mcpd")]
    assert own_command(str(script), {"PATH": str(bin_folder)}, is_shared=True) == ["mcpd"]
    assert own_command(str(script), {"PATH": "/nowhere"}, is_shared=True) == [str(script)]


def test_a_relative_command_is_made_absolute(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    (home / "mcpd").touch(0o755)

    assert own_command("./mcpd", {"PATH": "/nowhere"}) == [str(home / "mcpd")]


def test_without_a_script_the_module_is_run(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(home / "python"))

    command = own_command("/x/__main__.py", {"PATH": "/nowhere"})

    assert command == [str(home / "python"), "-P", "-m", "mcpd_client"]
    assert is_bridge([*command, "bridge"])


@pytest.mark.parametrize(
    "entry",
    [None, "x", [], {}, {"url": "https://x"}, {"command": 7}, {"command": ["a", 7]}, {"command": "a", "args": [None]}],
)
def test_an_entry_without_a_local_command_starts_nothing(entry: object) -> None:
    assert find("cursor").command(entry) == []


def test_an_older_form_is_read() -> None:
    assert find("zed").command({"command": {"path": "mcpd", "args": ["bridge"]}}) == ["mcpd", "bridge"]


def test_a_file_that_has_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("new")

    with pytest.raises(HostFileError, match="has changed meanwhile"):
        files.write(str(file), "old", "mine", is_private=True)

    assert file.read_text() == "new"
    assert os.listdir(tmp_path) == ["f"]


def test_of_two_at_once_neither_loses_what_the_other_wrote(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("")

    def add(name: str) -> None:
        for number in range(20):
            while True:
                before = files.read(str(file))
                try:
                    files.write(str(file), before, f"{before}{name}{number}\n", is_private=True)
                except HostFileError:
                    continue
                break

    writers = [threading.Thread(target=add, args=(name,)) for name in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert sorted(file.read_text().splitlines()) == sorted(f"{name}{number}" for name in "abcd" for number in range(20))


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "f"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        # So some switch a configuration off.
        path.symlink_to(os.devnull)
    else:
        path.mkdir()

    with pytest.raises(HostFileError, match=r"is not a regular file|Is a directory"):
        files.read(str(path))
    # A test is no place to risk the real device.
    if kind != "device":
        with pytest.raises(HostFileError):
            files.write(str(path), "", "x", is_private=True)
        assert os.listdir(tmp_path) == ["f"]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    file, states = tmp_path / "f", ["a" * 500_000, "b" * 500_000]
    file.write_text(states[0])
    seen: set[str] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(file.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(20):
        files.write(str(file), states[turn % 2], states[(turn + 1) % 2], is_private=True)
    done.set()
    reader.join()

    assert seen <= set(states)


def test_every_state_is_kept_once(tmp_path: Path) -> None:
    file = tmp_path / "f"
    kept = []
    for text in ("one", "two", "one", "three"):
        file.write_text(text)
        kept.append(files.back_up(str(file), text))

    assert kept[0] == kept[2]
    assert len(set(kept)) == 3
    assert sorted(path.read_text() for path in tmp_path.glob("f.mcpd-backup-*")) == ["one", "three", "two"]
    assert files.back_up(str(tmp_path / "g"), None) is None
