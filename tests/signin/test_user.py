from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from mcpd.signin.callback import listen
from mcpd.signin.problems import SignInFailed
from mcpd.signin.user import SLIPPED, User, mended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

PAGE = "https://id.example/authorize?response_type=code&state=right"


def ignore(text: str) -> None:
    """Say nothing."""


@asynccontextmanager
async def user_with(
    say: Callable[[str], None], *, command: Sequence[str] | None = None, pasted_from: int | None = None
) -> AsyncIterator[User]:
    callback = await listen()
    yield User(
        "s", callback, command=command, pasted_from=pasted_from, patience_seconds=30, insecure=False, say=say
    )  # fmt: skip
    await callback.aclose()


async def test_a_pasted_address_is_an_answer_once_it_is_the_right_one() -> None:
    said: list[str] = []
    ours, theirs = os.pipe()
    async with user_with(said.append, pasted_from=ours) as user:
        await user.show(PAGE)

        os.write(theirs, b"\nwhat?\nhttp://127.0.0.1:1/callback?code=c&state=wrong\ncode=c&state=right\n")
        answer = await user.answer()

    assert answer.code == "c"
    assert said.count(SLIPPED) == 2
    os.close(ours)
    os.close(theirs)


async def test_the_end_of_the_input_is_no_answer(autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = os.pipe()
    os.close(theirs)
    async with user_with(ignore, pasted_from=ours) as user:
        await user.show(PAGE)

        with pytest.raises(SignInFailed, match="nobody has signed in to s within 30 s"):
            await user.answer()
    os.close(ours)


async def test_a_browser_that_fails_is_told_and_is_not_the_end() -> None:
    said: list[str] = []
    told = trio.Event()

    def say(text: str) -> None:
        said.append(text)
        if "ended with" in text:
            told.set()

    async with user_with(say, command=(sys.executable, "-c", "import sys; sys.exit(3)")) as user:
        await user.show(PAGE)
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(user.answer)
                await told.wait()
                nursery.cancel_scope.cancel()

    assert any(PAGE in text for text in said)
    assert said[-1] == "the browser's command ended with 3: open the page yourself\n"


async def test_a_browser_that_does_not_start_is_told() -> None:
    said: list[str] = []

    async with user_with(said.append, command=("/no/such/program",)) as user:
        await user.show(PAGE)

    assert any("does not start" in text for text in said)


@pytest.mark.parametrize(
    "page", ["http://id.example/?state=right", "file:///x?state=right", "https://a:b@c/?state=right"]
)
async def test_a_page_that_must_not_be_shown_is_not(page: str) -> None:
    said: list[str] = []

    async with user_with(said.append, command=("/no/such/program",)) as user:
        with pytest.raises(SignInFailed, match="is not opened"):
            await user.show(page)

    assert said == []


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("https://a/b?tenant=x?response_type=code&c=d", "https://a/b?tenant=x&response_type=code&c=d"),
        ("https://a/b?response_type=code&c=d", "https://a/b?response_type=code&c=d"),
    ],
)
def test_a_page_with_a_query_of_its_own_keeps_it(url: str, whole: str) -> None:
    assert mended(url) == whole
