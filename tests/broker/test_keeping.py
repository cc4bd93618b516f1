"""What tells one upstream's lists on the shelf from another's."""

from __future__ import annotations

from typing import Any

import pytest

from mcpd.broker.keeping import identity_of
from mcpd.config.expand import Launch
from mcpd.config.model import Server
from mcpd.errors import ServerUnavailable
from tests.upstream.fakes import server


def identity(entry: Server | None = None, **launched: Any) -> str | None:
    start = {"argv": ("/fake",), "env": {"TERM": "xterm"}, "cwd": "/", "secrets": frozenset[str](), **launched}
    return identity_of(entry or server(), lambda: Launch(**start))


def test_what_is_started_alike_is_one() -> None:
    assert identity() == identity()
    assert identity() == identity(env={"TERM": "dumb"})  # nobody asked for that


@pytest.mark.parametrize("other", [{"argv": ("/fake", "-x")}, {"cwd": "/tmp"}, {"argv": ("/fak",)}])
def test_another_command_or_folder_is_another(other: dict[str, Any]) -> None:
    assert identity() != identity(**other)


@pytest.mark.parametrize("entry", [server(env={"TOKEN": "${TOKEN}"}), server(env_pass=("TOKEN",))])
def test_another_value_of_what_the_entry_sets_or_passes_is_another(entry: Server) -> None:
    assert identity(entry, env={"TOKEN": "a"}) == identity(entry, env={"TOKEN": "a"})
    assert identity(entry, env={"TOKEN": "a"}) != identity(entry, env={"TOKEN": "b"})


def test_no_value_can_be_read_off_it() -> None:
    found = identity(server(env={"TOKEN": "x"}), env={"TOKEN": "hunter2"})

    assert found is not None
    assert len(found) == 64
    assert "hunter2" not in found


def test_what_cannot_be_started_now_has_none() -> None:
    def expand() -> Launch:
        raise ServerUnavailable("there is no such program")

    assert identity_of(server(), expand) is None
