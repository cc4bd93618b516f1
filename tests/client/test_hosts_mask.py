from __future__ import annotations

import json
from difflib import unified_diff

import pytest

from mcpd_client.hosts import mask


def lines_of(count: int, **more: int) -> str:
    return json.dumps({f"n{number}": number for number in range(count)} | more, indent=2)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 50])
@pytest.mark.parametrize("changed", [{"n0": 9}, {"n25": -1}, {"n1": -1, "n30": -1}, {"last": 1}, {}])
def test_a_diff_is_that_of_the_whole_files(count: int, changed: dict[str, int]) -> None:
    before, after = lines_of(count), lines_of(count, **changed)
    expected = unified_diff(before.splitlines(), after.splitlines(), "f", "f", lineterm="")

    assert mask.diff("f", before, after, is_toml=False).splitlines() == [*expected]
    assert mask.diff("f", after, before, is_toml=False).count("@@ -") == mask.diff(
        "f", before, after, is_toml=False
    ).count("@@ -")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"env": {"A": "b", "C": ""}, "x": "env"}', '{"env": {"A": "*****", "C": "*****"}, "x": "env"}'),
        ('["--header", "X-Api-Key: b"]', '["--header", "*****"]'),
        ('// "API_TOKEN": "b"\n{} /* no token here */', '//"*****"\n{} /* no token here */'),
        ('{"url": "https://h/token/a:b"}', '{"url": "*****"}'),
    ],
)
def test_what_looks_like_a_secret_is_covered_and_nothing_else(before: str, after: str) -> None:
    assert mask.covered(before, is_toml=False) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[[p]]\nn = "a"\ntoken = "b"\n[p.env]\nA = "c"\n', '[[p]]\nn = "a"\ntoken = "*****"\n[p.env]\nA = "*****"\n'),
        ('#token = "b"\n# none\nx = """\n# token = 1"""\n', '#"*****"\n# none\nx = "*****"\n'),
        ('a = [\n  "--token", # token = c\n  "b",\n]\nd = 1\n', 'a = "*****"\nd = 1\n'),
    ],
)
def test_so_it_is_in_toml(before: str, after: str) -> None:
    assert mask.covered(before, is_toml=True) == after
