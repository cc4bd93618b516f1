"""Who a client is, and which project it is in."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from mcpd.downstream.visitor import Hello, Visitor
from mcpd.errors import BadRequest


@pytest.fixture
def visitor() -> Iterator[Visitor]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Visitor(7, ours)


@pytest.mark.parametrize("project", ["here", "", "./x", "/a\0b"])
def test_a_project_that_is_no_folder_is_refused_and_changes_nothing(visitor: Visitor, project: str) -> None:
    visitor.greet(Hello(project="/p"), is_bound=False)

    with pytest.raises(BadRequest, match="project must be an absolute folder"):
        visitor.greet(Hello(project=project), is_bound=True)

    assert (visitor.seeker.key, visitor.seeker.project, visitor.seeker.alone) == (7, "/p", False)


def test_another_project_is_a_turn_for_who_has_asked_for_something(visitor: Visitor) -> None:
    visitor.greet(Hello(project="/p"), is_bound=False)

    assert [visitor.greet(Hello(project=project), is_bound=True) for project in ("/p/../p", "/q", "/q")] == [False, True, False]
