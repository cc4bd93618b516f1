from __future__ import annotations

import pytest

from mcpd.signin.scopes import is_proper, joined, union


@pytest.mark.parametrize(
    ("texts", "all_of_them"),
    [
        (("a b", "c a"), "a b c"),
        ((None, "a"), "a"),
        (("a", None, ""), "a"),
        (("  a   b ",), "a b"),
        ((None, " "), None),
        ((), None),
    ],
)
def test_a_union_has_each_scope_once_and_the_earlier_ones_first(
    texts: tuple[str | None, ...], all_of_them: str | None
) -> None:
    assert union(*texts) == all_of_them


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["a", "b"], "a b"),
        (["a", 'b"', "c\nd", "e f", 5, "https://x/y"], "a https://x/y"),
        ([], None),
        ("a b", None),
        (None, None),
        (7, None),
    ],
)
def test_of_what_somebody_else_names_only_scopes_are_taken(words: object, text: str | None) -> None:
    assert joined(words) == text


def test_a_list_of_scopes_is_told_from_other_texts() -> None:
    assert is_proper("repo read:user")
    assert not any(map(is_proper, ("", " ", 'a"b', "a\\b", "é")))
