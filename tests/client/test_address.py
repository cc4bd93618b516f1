from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from mcpd_client import address

if TYPE_CHECKING:
    from pathlib import Path

ME = os.geteuid()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"MCPD_SOCKET": "/s/x.sock", "XDG_RUNTIME_DIR": "/r", "HOME": "/h"}, "/s/x.sock"),
        ({"MCPD_SOCKET": "", "XDG_RUNTIME_DIR": "/r", "HOME": "/h"}, "/r/mcpd/mcpd.sock"),
        ({"XDG_RUNTIME_DIR": "/r", "HOME": "/h"}, "/r/mcpd/mcpd.sock"),
        ({"XDG_RUNTIME_DIR": "relative", "HOME": "/h"}, "/h/.local/state/mcpd/run/mcpd.sock"),
        ({"XDG_RUNTIME_DIR": "", "HOME": "/h"}, "/h/.local/state/mcpd/run/mcpd.sock"),
        ({"XDG_STATE_HOME": "/elsewhere", "HOME": "/h"}, "/h/.local/state/mcpd/run/mcpd.sock"),
    ],
)
def test_the_socket_follows_the_environment(environ: dict[str, str], expected: str, tmp_path: Path) -> None:
    assert address.socket_path(environ, ME, run_root=str(tmp_path)) == expected


def test_the_systems_runtime_directory_is_used_if_it_is_ours(tmp_path: Path) -> None:
    (tmp_path / str(ME)).mkdir()

    assert address.socket_path({"HOME": "/h"}, ME, run_root=str(tmp_path)) == f"{tmp_path}/{ME}/mcpd/mcpd.sock"


def test_the_systems_runtime_directory_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    (tmp_path / str(ME + 1)).mkdir()

    path = address.socket_path({"HOME": "/h"}, ME + 1, run_root=str(tmp_path))

    assert path == "/h/.local/state/mcpd/run/mcpd.sock"


def test_a_file_in_place_of_the_runtime_directory_is_not_used(tmp_path: Path) -> None:
    (tmp_path / str(ME)).touch()

    path = address.socket_path({"HOME": "/h"}, ME, run_root=str(tmp_path))

    assert path == "/h/.local/state/mcpd/run/mcpd.sock"


def test_a_relative_mcpd_socket_is_taken_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert address.socket_path({"MCPD_SOCKET": "x.sock"}, ME) == f"{tmp_path}/x.sock"


def test_without_home_the_password_database_knows_it() -> None:
    assert address.home({}, 0) == "/root"
    assert address.home({}, 2**31 - 7) == "/"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"socket": "/r/mcpd.sock", "pid": 1}', "/r/mcpd.sock"),
        ('{"pid":1,"socket":"/r/a \\"b\\" \\u00e9.sock"}', '/r/a "b" é.sock'),
        ('{"socket": "relative.sock"}', None),
        ('{"socket": 7}', None),
        ('{"pid": 1}', None),
        ('{"socket": "/r/unfinished', None),
        ("", None),
    ],
)
def test_the_endpoint_file_names_the_socket(text: str, expected: str | None, tmp_path: Path) -> None:
    file = tmp_path / ".local/state/mcpd/endpoint.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)

    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": "/elsewhere"}

    assert address.fallback_path(environ, ME) == expected


def test_there_may_be_no_endpoint_file(tmp_path: Path) -> None:
    assert address.fallback_path({"HOME": str(tmp_path)}, ME) is None


def test_mcpd_socket_leaves_nothing_else_to_try(tmp_path: Path) -> None:
    file = tmp_path / ".local/state/mcpd/endpoint.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"socket": "/r/mcpd.sock"}')

    assert address.fallback_path({"HOME": str(tmp_path), "MCPD_SOCKET": "/s"}, ME) is None


def test_a_path_of_107_bytes_is_the_longest() -> None:
    assert not address.is_too_long("/" + "a" * 106)
    assert address.is_too_long("/" + "a" * 107)
    assert address.is_too_long("/" + "é" * 54)
