"""What is kept of stderr, and what of it is shown: bounded, and no secret, not even half of one."""

from __future__ import annotations

import dataclasses

import pytest
import trio
from trio.testing import MockClock

from mcpd.config.expand import Launch
from mcpd.config.model import Server
from mcpd.config.redact import MARK, Redactor, last
from mcpd.upstream.stdio import RING_BYTES, Ring
from tests.upstream.fakes import FakeServer, World, failure

SECRET = "hunter2-is-not-a-good-password"
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
BODY = [f"{number:02d}MIIEow+/IBAAKCAQEA" for number in range(25)]
KEY = ["-----BEGIN RSA PRIVATE KEY-----", *BODY, "-----END RSA PRIVATE KEY-----"]


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    return World(nursery)


def texts(ring: Ring) -> list[str]:
    return [line for _, line in ring.lines()]


async def shown(world: World, stderr: str) -> str:
    """Return what the error of a failed start shows of stderr."""

    def leaves(server: FakeServer, _: object) -> None:
        server.ring.append(stderr.encode())
        server.die()

    def launch(server: Server, project: str | None) -> Launch:
        return Launch(argv=("/fake",), env={"PASSWORD": SECRET}, cwd="/", secrets=frozenset([SECRET]))

    world.around = dataclasses.replace(world.around, launch=launch)
    problem = await failure(world.slot({"server/discover": -32601, "initialize": leaves}))
    return str(problem.details["stderr"])


# -- what is kept --------------------------------------------------------------------------------


def test_the_last_64_kib_are_kept_in_whole_characters() -> None:
    ring = Ring()
    for _ in range(1000):
        ring.append(f"{'é' * 499}\n".encode())

    found = texts(ring)

    assert ring.total_bytes == 999_000
    assert RING_BYTES - 2 * 1000 < sum(len(line.encode()) + 1 for line in found) <= RING_BYTES
    assert set(found) == {"é" * 499}


def test_one_piece_that_is_too_long_is_kept_from_its_middle_on() -> None:
    ring = Ring(max_bytes=20)

    ring.append(b"something that is secret\nand more\n")

    assert texts(ring) == ["and more"]


def test_the_only_line_that_is_left_loses_its_first_word_which_may_be_half_a_secret() -> None:
    ring = Ring(max_bytes=20)

    ring.append(b"something that is secret and more")  # which leaves `t is secret and more`

    assert texts(ring) == ["is secret and more"]


def test_what_was_never_full_is_kept_whole() -> None:
    ring = Ring()
    for piece in (b"fir", b"st\nsec", b"ond"):
        ring.append(piece)

    assert texts(ring) == ["first", "second"]


# -- what is shown -------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [SECRET, TOKEN])
@pytest.mark.parametrize("behind", range(940, 1010, 3))
async def test_a_secret_across_the_cut_is_not_shown_in_part(
    world: World, autojump_clock: MockClock, secret: str, behind: int
) -> None:
    tail = await shown(world, f"{'x' * 3000} {secret}{'.' * behind}\n")

    assert tail.endswith("...")
    assert [length for length in range(4, len(secret)) if secret[-length:] in tail] == []
    assert tail.strip(".x ") in ("", MARK)


async def test_a_key_of_more_lines_than_are_shown_is_not_shown(world: World, autojump_clock: MockClock) -> None:
    tail = await shown(world, "\n".join(["reading the key", *KEY, "it is too short"]))

    assert tail == f"reading the key\n{MARK}\nit is too short"


def test_a_log_keeps_its_lines_where_a_secret_goes_over_several() -> None:
    redactor = Redactor(["a secret\nof two lines"])

    found = redactor.lines(["one", *KEY, "two", "it is a secret", "of two lines.", f"key {TOKEN}"])

    assert found == ["one", MARK, *[""] * (len(KEY) - 1), "two", f"it is {MARK}", ".", f"key {MARK}"]


def test_a_log_without_lines_has_none() -> None:
    assert Redactor().lines([]) == []


@pytest.mark.parametrize(
    ("text", "characters", "end"),
    [
        ("abc", 5, "abc"),
        ("abcdef", 3, "def"),
        (f"ab{MARK}cd", 2, "cd"),
        (f"ab{MARK}cd", 3, f"{MARK}cd"),
        (f"ab{MARK}cd", 11, f"{MARK}cd"),
        (f"ab{MARK}cd", 12, f"{MARK}cd"),
        (f"ab{MARK}cd", 13, f"b{MARK}cd"),
        (f"{MARK}{MARK}", 10, MARK),
        (f"{MARK}{MARK}", 11, f"{MARK}{MARK}"),
    ],
)
def test_a_mark_is_not_cut(text: str, characters: int, end: str) -> None:
    assert last(text, characters) == end
