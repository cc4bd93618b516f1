"""Lists in files: what is put down is found again, and nothing that is wrong with a file hurts."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio
from msgspec import Raw
from trio.testing import MockClock, wait_all_tasks_blocked

from mcpd.broker import shelf as module
from mcpd.broker.shelf import Shelf, Shelved
from mcpd.timers import Timers

DAY = 24 * 3600


def shelved(*descriptors: bytes, revision: int = 1, **more: object) -> Shelved:
    items = [(f"t{number}", Raw(body)) for number, body in enumerate(descriptors)]
    return Shelved(revision=revision, items=items, **more)  # type: ignore[arg-type]  # tests know the fields


ONE = shelved(b'{"name":"t0"}')


class Place:
    """A shelf, and the tasks that it has begun."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "state" / "catalogs"
        self.timers = Timers()
        self.tasks: list[Callable[[], Awaitable[object]]] = []
        self.shelf = Shelf(str(self.folder), self.timers, self.tasks.append)

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.exists() else []

    def write(self, identity: str = "id", kind: str = "tools", what: Shelved = ONE) -> Path:
        """Write a list at once; return its file."""
        before = {*self.files}
        self.shelf.write(identity, kind, what)
        (new,) = {*self.files} - before
        return new


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def locked(place: Place) -> Iterator[Place]:
    """A place whose folder cannot be made: its parent is a file."""
    place.folder.parent.write_text("in the way")
    return place


# -- files ---------------------------------------------------------------------------------------


def test_every_byte_is_found_again(place: Place) -> None:
    bodies = (b'{"n":123456789012345678901234567890, "f":1.0,  "\\u0061":"\\u00e4"}', '{"ä":"\\n"}'.encode(), b"{ }")
    what = shelved(*bodies, revision=7, set_aside=["item 2: it has no `name`"], policy=(("a*",), ("b",)))
    place.write(what=what)

    found = place.shelf.read("id", "tools")

    assert found is not None
    assert [bytes(raw) for _, raw in found.items] == [*bodies]
    assert (found.revision, found.set_aside, found.policy) == (7, what.set_aside, what.policy)


def test_every_identity_and_kind_has_its_own(place: Place) -> None:
    for number, (identity, kind) in enumerate([("a", "tools"), ("a", "prompts"), ("b", "tools")], 1):
        place.write(identity, kind, shelved(revision=number))

    found = [place.shelf.read(*key) for key in (("a", "tools"), ("a", "prompts"), ("b", "tools"), ("b", "prompts"))]

    assert [None if one is None else one.revision for one in found] == [1, 2, 3, None]


def test_an_identity_may_be_any_text(place: Place) -> None:
    for identity in ("../../x", "a/b", "", "ä" * 500, "a\0b"):
        path = place.write(identity)
        assert path.parent == place.folder
        assert place.shelf.read(identity, "tools") is not None


def test_only_the_user_can_read_what_is_kept(place: Place) -> None:
    path = place.write()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"form":1,"identity":"id","kind":"tools"}',
        b'{"form":1,"identity":"id","kind":"tools","list":{"revision":1,"items":[["a"]]}}',
        b'{"form":1,"identity":"id","kind":"tools","list":{"revision":1,"items":[["a",7]]}}',
        b'{"form":1,"identity":"id","kind":"tools","list":{"revision":1,"items":[["a",{"x":"\xff"}]]}}',
        b'{"form":1,"identity":"id","kind":"tools","list":{"revision":0,"items":[]}}',
        b'{"form":2,"identity":"id","kind":"tools","list":{"revision":1,"items":[]}}',
        b'{"form":1,"identity":"other","kind":"tools","list":{"revision":1,"items":[]}}',
        b'{"form":1,"identity":"id","kind":"prompts","list":{"revision":1,"items":[]}}',
        b"[" * 100_000,
    ],
)
def test_a_broken_or_foreign_file_is_removed(place: Place, body: bytes) -> None:
    path = place.write()
    path.write_bytes(body)

    assert place.shelf.read("id", "tools") is None
    assert not path.exists()


def test_a_file_that_is_as_it_should_be_stays(place: Place) -> None:
    path = place.write()
    path.write_bytes(b'{"form":1,"identity":"id","kind":"tools","list":{"revision":1,"items":[]}}')

    assert place.shelf.read("id", "tools") == shelved()
    assert path.exists()


def test_a_pipe_or_a_link_in_the_place_of_a_file_is_removed_and_not_followed(place: Place, tmp_path: Path) -> None:
    path = place.write()
    path.rename(tmp_path / "elsewhere")

    path.symlink_to(tmp_path / "elsewhere")
    assert place.shelf.read("id", "tools") is None
    os.mkfifo(path)
    assert place.shelf.read("id", "tools") is None

    assert not path.exists()
    assert (tmp_path / "elsewhere").exists()


def test_a_list_that_is_too_large_is_not_kept_and_nor_is_the_one_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write()
    monkeypatch.setattr(module, "MAX_BYTES", 1000)

    place.shelf.write("id", "tools", shelved(b'{"x":"%b"}' % (b"x" * 1000)))

    assert place.files == []


def test_a_file_that_is_too_large_is_not_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(what=shelved(b'{"x":"%b"}' % (b"x" * 1000)))
    monkeypatch.setattr(module, "MAX_BYTES", 1000)

    assert place.shelf.read("id", "tools") is None
    assert place.files == []


# -- tidying -------------------------------------------------------------------------------------


def aged(path: Path, seconds: float) -> Path:
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def test_what_nobody_has_needed_for_a_month_is_removed(place: Place) -> None:
    old, newer = aged(place.write("old"), 31 * DAY), aged(place.write("newer"), 29 * DAY)

    assert place.shelf.read("newer", "tools") is not None
    place.shelf.tidy()

    assert place.files == [newer]
    assert time.time() - newer.stat().st_mtime < DAY  # it was needed now
    assert not old.exists()


def test_a_file_of_more_than_a_month_ago_is_not_believed(place: Place) -> None:
    aged(place.write(), 31 * DAY)

    assert place.shelf.read("id", "tools") is None


def test_there_are_so_many_files_at_most_and_the_oldest_go(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 3)
    paths = [aged(place.write(f"{number}"), number * 60) for number in range(5)]

    place.shelf.tidy()

    assert {*place.files} == {*paths[:3]}


def test_what_was_left_half_written_is_removed(place: Place) -> None:
    path = place.write()
    half = path.with_name(f"{path.name}.1.new")
    half.write_text("{")

    place.shelf.tidy()
    assert half.exists()  # somebody may be writing it
    aged(half, 60)
    place.shelf.tidy()
    assert place.files == [path]


def test_what_is_no_file_is_left_alone(place: Place) -> None:
    place.write()
    (place.folder / "folder").mkdir()
    aged(place.folder / "folder", 31 * DAY)

    place.shelf.tidy()

    assert len(place.files) == 2


# -- a disk that does not take it ----------------------------------------------------------------


def test_a_folder_that_cannot_be_made_costs_the_cache_only(locked: Place) -> None:
    locked.shelf.write("id", "tools", ONE)
    locked.shelf.tidy()

    assert locked.shelf.read("id", "tools") is None
    assert locked.shelf.failed == 1


def test_a_full_disk_leaves_the_file_before(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place.write()

    def full(old: str, new: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    place.shelf.write("id", "tools", shelved(b"{}", revision=2))

    assert place.shelf.failed == 1
    assert place.files == [path]
    assert place.shelf.read("id", "tools") == ONE


# -- the shelf in the daemon ---------------------------------------------------------------------


async def test_what_is_put_down_is_there_at_once_and_written_once_in_a_moment(
    place: Place, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    nursery.start_soon(place.timers.run)
    for revision in range(1, 10):
        place.shelf.put("id", "tools", shelved(revision=revision))

    assert await place.shelf.get("id", "tools") == shelved(revision=9)
    assert (place.files, place.tasks) == ([], [])
    await trio.sleep(2)
    (task,) = place.tasks
    await task()

    assert place.shelf.read("id", "tools") == shelved(revision=9)
    assert await place.shelf.get("id", "tools") == shelved(revision=9)


async def test_what_is_put_down_during_the_writing_is_written_next(
    place: Place, nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nursery.start_soon(place.timers.run)
    write = place.shelf.write

    def interrupted(identity: str, kind: str, what: Shelved) -> None:
        write(identity, kind, what)
        if what.revision == 1:
            trio.from_thread.run_sync(place.shelf.put, "id", "tools", shelved(revision=2))

    monkeypatch.setattr(place.shelf, "write", interrupted)
    place.shelf.put("id", "tools", shelved(revision=1))
    await trio.sleep(2)
    await place.tasks.pop()()

    assert await place.shelf.get("id", "tools") == shelved(revision=2)
    await trio.sleep(2)
    await place.tasks.pop()()
    assert place.shelf.read("id", "tools") == shelved(revision=2)
    await trio.sleep(10)
    assert place.tasks == []


async def test_a_stop_writes_what_is_not_written_yet(
    place: Place, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    nursery.start_soon(place.timers.run)
    place.shelf.put("id", "tools", ONE)
    place.shelf.close()
    await trio.sleep(2)
    await wait_all_tasks_blocked()

    assert place.shelf.read("id", "tools") == ONE
    assert place.tasks == []


async def test_what_is_not_there_is_not_found(place: Place) -> None:
    assert await place.shelf.get("id", "tools") is None
