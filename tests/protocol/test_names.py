"""Names and uris of several servers as one: each is the only one, fits, and stays what it is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.protocol import names
from mcpd.protocol.names import Pair

SERVERS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}", fullmatch=True) | st.sampled_from(["a", "a-b", "a_b", "a__b", "A"])
PARTS = st.text("ab_-.A/é ", max_size=12) | st.text(max_size=300)
SETS = st.lists(st.builds(Pair, SERVERS, PARTS), max_size=12, unique=True)
SEPARATORS = st.sampled_from(["-", "_", "__", "--", ".", "", "x"])


def of(*pairs: tuple[str, str], between: str = "-") -> list[str]:
    return [*names.short([Pair(*pair) for pair in pairs], between).values()]


# -- short names ---------------------------------------------------------------------------------


@given(SETS, SEPARATORS)
def test_every_short_name_is_the_only_one_and_fits_every_host(pairs: list[Pair], between: str) -> None:
    between = names.separator(between)
    found = names.short(pairs, between)

    assert [*found] == pairs
    assert len({*found.values()}) == len(pairs)
    for name in found.values():
        assert re.fullmatch(r"[A-Za-z0-9-][A-Za-z0-9_-]{0,49}", name)
        assert "__" in between or "__" not in name


@given(SETS, SEPARATORS, st.randoms())
def test_names_do_not_depend_on_the_order(pairs: list[Pair], between: str, random: st.DataObject) -> None:
    between, mixed = names.separator(between), list(pairs)
    random.shuffle(mixed)  # type: ignore[attr-defined]

    assert names.short(mixed, between) == names.short(pairs, between)
    assert names.mcp(mixed) == names.mcp(pairs)


@given(SETS)
def test_what_is_added_leaves_the_names_alone_that_it_does_not_collide_with(pairs: list[Pair]) -> None:
    before = names.short(pairs)
    after = names.short([*pairs, Pair("zzz", "no_one_has_this")])

    assert {pair: after[pair] for pair in pairs} == before


def test_a_name_is_its_servers_and_its_own() -> None:
    assert of(("github", "search_code"), ("fs", "read")) == ["github-search_code", "fs-read"]
    assert of(("fs", "read"), between="_") == ["fs_read"]
    assert of(("fs", "read"), between="__") == ["fs__read"]


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("github", "github_search", "github-search"),
        ("github", "GitHub.search", "github-search"),
        ("git", "gitlab", "git-gitlab"),
        ("git", "git", "git-git"),
        ("git", "git_", "git-git_"),
    ],
)
def test_a_servers_name_is_not_said_twice(server: str, tool: str, name: str) -> None:
    assert of((server, tool)) == [name]


def test_a_servers_name_is_said_twice_where_it_tells_two_tools_apart() -> None:
    assert of(("github", "github_search"), ("github", "search")) == ["github-github_search", "github-search"]
    assert of(("g", "g_x"), ("g", "g-x")) == ["g-g_x", "g-g-x"]


@pytest.mark.parametrize(
    ("tool", "name"),
    [("a.b", "s-a_b"), ("a b/c", "s-a_b_c"), ("a__b", "s-a_b"), ("_a", "s-_a"), ("é", "s-_"), ("", "s-")],
)
def test_what_a_name_may_not_have_becomes_an_underscore(tool: str, name: str) -> None:
    assert of(("s", tool)) == [name]


def test_all_that_would_have_the_same_name_end_in_a_hash() -> None:
    found = of(("a-b", "c"), ("a", "b-c"), ("a", "d"))

    assert [re.sub("[0-9a-f]{8}$", "#", name) for name in found] == ["a-b-c-#", "a-b-c-#", "a-d"]
    assert found[0] != found[1]


def test_a_tool_that_is_called_like_another_ones_hash_is_told_apart_too() -> None:
    pairs = [("a-b", "c"), ("a", "b-c")]
    impostor = of(*pairs)[0]

    found = of(*pairs, ("a", impostor.removeprefix("a-")))

    assert len({*found}) == 3


def test_what_is_too_long_ends_in_a_hash_of_all_of_it() -> None:
    one, other = of(("server", "x" * 200 + "1"), ("server", "x" * 200 + "2"))

    assert (len(one), len(other), one[:41], other[:41]) == (50, 50, one[:41], one[:41])
    assert one != other


# -- names as Claude Code has them ---------------------------------------------------------------


@given(SETS)
def test_every_mcp_name_is_the_only_one_and_has_64_characters_at_most(pairs: list[Pair]) -> None:
    found = names.mcp(pairs)

    assert len({*found.values()}) == len(pairs)
    assert all(re.fullmatch(r"mcp__[A-Za-z0-9_-]{0,59}", name) for name in found.values())


def test_mcp_names_keep_case_and_say_two_of_the_same_apart() -> None:
    assert names.mcp([Pair("Foo", "getBar.x")]) == {Pair("Foo", "getBar.x"): "mcp__Foo__getBar_x"}
    found = [*names.mcp([Pair("foo", "bar__baz"), Pair("foo__bar", "baz")]).values()]
    assert [re.sub("[0-9a-f]{8}$", "#", name) for name in found] == ["mcp__foo__bar__baz_#"] * 2
    assert len({*found}) == 2


def test_other_things_of_a_server_have_a_name_of_the_same_form() -> None:
    assert names.mcp([Pair("fs", "list")], "mcp_resource") == {Pair("fs", "list"): "mcp_resource__fs__list"}


@pytest.mark.parametrize("said", ["mcp__fs__read.it", "fs__read.it", "fs.read.it", "fs-read.it", "mcp__fs__read_it"])
def test_models_call_things_by_other_names(said: str) -> None:
    assert said in names.aliases(Pair("fs", "read.it"))


# -- uris ----------------------------------------------------------------------------------------


@given(st.lists(st.builds(Pair, SERVERS, st.sampled_from(["x:1", "x:2", "mcpd+a:x:1", "mcpd+b:y"])), unique=True))
def test_every_uri_is_the_only_one_and_those_of_later_servers_name_them(pairs: list[Pair]) -> None:
    found = names.uris(pairs)

    assert len({*found.values()}) == len(pairs)
    for pair, uri in found.items():
        assert uri == pair.name or names.whose(uri) == pair


def test_the_first_server_has_a_uri_as_it_is() -> None:
    found = names.uris([Pair("a", "x:1"), Pair("b", "x:1"), Pair("b", "x:2")])

    assert [*found.values()] == ["x:1", "mcpd+b:x:1", "x:2"]


@pytest.mark.parametrize("uri", ["x:1", "mcpd:x", "mcpd+:x", "mcpd+-a:x", "mcpd+a", "xmcpd+a:b"])
def test_a_uri_that_names_no_server_is_nobodys(uri: str) -> None:
    assert names.whose(uri) is None


@pytest.mark.parametrize(
    ("template", "uri", "own"),
    [
        ("note:{n}", "note:1", 5),
        ("note:{n}", "other:1", None),
        ("a/{x}/b/{y}/c", "a/1/b/2/c", 7),
        ("a/{x}/b/{y}/c", "a/1/2/c", None),
        ("{+path}", "any:thing", 0),
        ("{a}{b}", "x", 0),
        ("x:1", "x:1", 3),
        ("x:1", "x:12", None),
        ("aba{x}aba", "aba", None),
        ("a{x}b{y}b", "ab", None),
    ],
)
def test_a_uri_is_compared_with_the_literal_parts_of_a_template(template: str, uri: str, own: int | None) -> None:
    assert names.fits(template, uri) == own


def test_a_template_of_a_thousand_variables_takes_no_time() -> None:
    assert names.fits("{x}a" * 1000, "a" * 4000 + "b") is None
