"""The table of requirements, checked: every one is named once, and is shown by tests that exist or left for a reason."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests/requirements.md"
REQUIRED = [f"{letter}{number}" for letter, count in (("R", 58), ("B", 54), ("P", 38)) for number in range(1, count + 1)]
REASON = re.compile(
    r"(later: (trust and audit|import|service)|settled: (K([1-9]|[12]\d|3[0-6])|design \d+))\. \S.*\."
)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ROW = re.compile(r"\| *(\w+) *\| *([^|]+?) *\| *([^|]*?) *\|")
MAX_WORDS = 25


@dataclass(frozen=True)
class Row:
    """A requirement: what it is, and what is said of it."""

    name: str
    what: str
    how: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        """The tests that are named, as (file, test)."""
        return TEST.findall(self.how)


def rows_of(text: str) -> list[Row]:
    """Read the tables of a text; their heads are no rows."""
    found = [ROW.fullmatch(line) for line in text.splitlines() if line.startswith("|") and "---" not in line]
    assert None not in found, "a row of the table has three columns"
    return [row for row in (Row(*match.groups()) for match in found if match) if row.name != "ID"]


@functools.cache
def names_in(file: Path) -> frozenset[str]:
    """Return the names of a file's tests; none where there is no such file."""
    if not file.is_file():
        return frozenset()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    return frozenset(node.name for body in bodies for node in body if isinstance(node, kinds))


def wrong_names(rows: Sequence[Row]) -> Iterator[str]:
    """Every requirement is there once, in its order, with a short statement."""
    names = [row.name for row in rows]
    yield from (f"{name} is missing" for name in REQUIRED if name not in names)
    yield from (f"{name} is no requirement" for name in names if name not in REQUIRED)
    yield from (f"{name} is there {names.count(name)} times" for name in REQUIRED if names.count(name) > 1)
    if names != REQUIRED and sorted(names) == sorted(REQUIRED):
        yield "the rows are not in their order"
    yield from (f"{row.name} has a long statement" for row in rows if len(row.what.split()) > MAX_WORDS)


def missing_tests(rows: Sequence[Row], root: Path) -> Iterator[str]:
    """Every test that is named exists, and is named once in its row."""
    for row in rows:
        yield from (f"{row.name}: {file} has no {test}" for file, test in row.tests if test not in names_in(root / file))
        if len(set(row.tests)) < len(row.tests):
            yield f"{row.name} names a test twice"


def wrong_reasons(rows: Sequence[Row]) -> Iterator[str]:
    """A row is either shown, and then it names tests and nothing else, or left with a reason; none is pending."""
    for row in rows:
        if row.how.startswith("PENDING"):
            yield f"{row.name} is pending: {row.how.removeprefix('PENDING').strip(': ')}"
        elif row.tests and TEST.sub("", row.how).strip(", "):
            yield f"{row.name} is shown and says more"
        elif not row.tests and not REASON.fullmatch(row.how):
            yield f"{row.name} is neither shown nor left for a known reason"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return rows_of(TABLE.read_text(encoding="utf-8"))


def test_every_requirement_is_named_once(rows: list[Row]) -> None:
    assert [*wrong_names(rows)] == []


def test_every_test_that_is_named_exists(rows: list[Row]) -> None:
    assert [*missing_tests(rows, ROOT)] == []


def test_every_requirement_is_shown_or_left_for_a_reason(rows: list[Row]) -> None:
    assert [*wrong_reasons(rows)] == []


def test_planted_mistakes_are_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("async def test_one(): ...\nclass A:\n    def test_two(self): ...\n")
    planted = {
        "R1": "`tests/test_a.py::test_one`, `tests/test_a.py::test_two`",
        "R2": "`tests/test_a.py::test_three`",
        "R3": "`tests/test_b.py::test_one`",
        "R4": "`tests/test_a.py::test_one` later: import. Some of it.",
        "R5": "PENDING: `tests/test_a.py`",
        "R6": "PENDING: `tests/test_a.py::test_one`",
        "R7": "later: import.",
        "R8": "later: another day. Perhaps.",
        "R9": "settled: K37. There is no such conflict.",
        "R10": "settled: K36. One file each.",
        "R11": "",
        "R12": "`tests/test_a.py::test_one`, `tests/test_a.py::test_one`",
        "R13": "test_one of tests/test_a.py",
    }
    lines = [f"| {name} | what it is | {how} |" for name, how in planted.items()]
    found = rows_of("\n".join(["# A title", "| ID | What | How |", "|---|---|---|", *lines]))

    assert [*missing_tests(found, tmp_path)] == [
        "R2: tests/test_a.py has no test_three",
        "R3: tests/test_b.py has no test_one",
        "R12 names a test twice",
    ]
    assert [*wrong_reasons(found)] == [
        "R4 is shown and says more",
        "R5 is pending: `tests/test_a.py`",
        "R6 is pending: `tests/test_a.py::test_one`",
        *[f"R{number} is neither shown nor left for a known reason" for number in (7, 8, 9, 11, 13)],
    ]


def test_planted_names_are_found() -> None:
    def wrong(*names: str) -> list[str]:
        return [*wrong_names([Row(name, "what it is", "") for name in names])]

    assert wrong(*REQUIRED) == []
    assert wrong(*REQUIRED[1:]) == ["R1 is missing"]
    assert wrong(*REQUIRED, "R1", "R59") == ["R59 is no requirement", "R1 is there 2 times"]
    assert wrong(REQUIRED[1], REQUIRED[0], *REQUIRED[2:]) == ["the rows are not in their order"]
    assert [*wrong_names([Row(name, "word " * 30, "") for name in REQUIRED])][:1] == ["R1 has a long statement"]
    with pytest.raises(AssertionError, match="three columns"):
        rows_of("| R1 | only two |")
