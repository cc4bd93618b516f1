"""The content of results of every kind, as text."""

from __future__ import annotations

from typing import Any

import pytest

from mcpd_client.cli.content import attachments, blocks_of, reading_of, text_of


def text(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": each} for each in texts], **more}


def test_what_was_read_and_prompts_have_blocks_like_a_tools_result() -> None:
    read = {"contents": [{"uri": "x:a", "text": "a"}, {"uri": "x:b", "blob": "AAAA"}]}
    prompt = {"messages": [{"role": "user", "content": {"type": "text", "text": "a"}}, {"role": "user", "content": "odd"}]}

    assert (text_of(read), [each.content for each in attachments(read)]) == ("a", [b"\0\0\0"])
    assert (text_of(prompt), blocks_of(prompt)[1]) == ("a", {})


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (text("a"), "a"),
        (text(structuredContent={"n": 1}), '{\n  "n": 1\n}'),
        (text("a", structuredContent={"n": 1, "m": 2}), 'a\n{\n  "n": 1,\n  "m": 2\n}'),
        (text("a\n", structuredContent=[1]), "a\n[\n  1\n]"),
        (text('{"m":2,  "n":1}', structuredContent={"n": 1, "m": 2}), '{"m":2,  "n":1}'),
        (text("[1]", structuredContent=[1.0]), "[1]\n[\n  1.0\n]"),
        (text("[1]", structuredContent=[True]), "[1]\n[\n  true\n]"),
        (text("3", structuredContent={"sum": 3}), "3"),
        (text("hello", structuredContent={"result": "hello"}), "hello"),
        (text("1", structuredContent={"result": True}), '1\n{\n  "result": true\n}'),
    ],
)
def test_structured_content_follows_the_text_unless_that_says_the_same(result: dict[str, Any], shown: str) -> None:
    assert reading_of(result) == shown
