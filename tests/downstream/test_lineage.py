"""Which processes belong together."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mcpd.downstream.lineage import belongs_with, household, is_below, line_of, program_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# Says its own number and that of a child of its own, and waits for the end of its input.
FAMILY = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"])
print(os.getpid(), child.pid, flush=True)
child.wait()
"""
NOBODY = 2**22 + 1


def family(*, apart: bool) -> Iterator[tuple[int, int]]:
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "start_new_session": apart}
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", FAMILY], **options) as process:  # type: ignore[call-overload]
        parent, child = map(int, process.stdout.readline().split())
        yield parent, child
        process.stdin.close()


@pytest.fixture
def here() -> Iterator[tuple[int, int]]:
    """A process of this session and its child."""
    yield from family(apart=False)


@pytest.fixture
def apart() -> Iterator[tuple[int, int]]:
    """A process that leads a session, as the shell of a terminal does, and its child."""
    yield from family(apart=True)


def test_a_line_goes_up_from_child_to_parent(here: tuple[int, int]) -> None:
    parent, child = here

    assert [process.pid for process in line_of(child)][:3] == [child, parent, os.getpid()]
    assert is_below(child, os.getpid())
    assert not is_below(os.getpid(), child)


def test_a_caller_belongs_with_what_is_above_it_in_its_session(here: tuple[int, int]) -> None:
    parent, child = here

    assert {child, parent, os.getpid()} <= household(child)
    assert belongs_with(parent, household(child))


def test_what_was_started_by_the_same_host_belongs_with_its_caller(
    here: tuple[int, int], apart: tuple[int, int]
) -> None:
    assert belongs_with(apart[1], household(here[0]))


def test_a_household_ends_below_the_leader_of_a_session(apart: tuple[int, int]) -> None:
    leader, child = apart

    assert household(child) == {child}
    assert not belongs_with(leader, household(child))
    assert not belongs_with(os.getpid(), household(child))


def test_the_first_process_of_the_system_is_nobodys_kin() -> None:
    assert 1 not in household(os.getpid())


def test_a_process_that_is_not_there_cannot_be_told_apart() -> None:
    assert (line_of(NOBODY), household(NOBODY), program_of(NOBODY)) == ([], set(), None)
    assert belongs_with(NOBODY, {1})
    assert belongs_with(os.getpid(), household(NOBODY))


def test_the_program_of_a_process_is_what_the_kernel_says() -> None:
    assert program_of(os.getpid()) == os.readlink("/proc/self/exe")
