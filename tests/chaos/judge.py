"""What must be true of a run, read from the notes of clients and servers; nothing here touches a process.

Every request has one outcome; no token is executed twice; an answer bears its own token; what is said to
have run has run, and what is said not to have run has not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# What no client may ever be told: nothing at all, or something that is not the protocol.
IMPOSSIBLE = ("no_answer", "unreadable", "daemon_protocol", "internal")
ANSWERS = ("done", "tool_error", "upstream_error")
# How a bug looks in the log: raw where Python itself reports it, in one line where the daemon does.
SIGNS = ("Traceback (most recent", '"level":"error"', "upstream.crashed")
LINE_CHARACTERS = 2000
# The harness's own calls.
OWN_SERIAL = "0"


@dataclass(frozen=True)
class Violation:
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True)
class Told:
    """What a client was told about one request; `ran` is yes, no, or `-`."""

    outcome: str
    ran: str = "-"
    milliseconds: float = 0.0
    said: str = "-"
    why: str = ""


@dataclass
class Journal:
    """The notes of one client; `sent` has the server and the tool of each token."""

    sent: dict[str, tuple[str, str]] = field(default_factory=dict)
    told: dict[str, list[Told]] = field(default_factory=lambda: defaultdict(list))
    strays: list[str] = field(default_factory=list)
    unreachable: int = 0
    has_left: bool = False


@dataclass
class Ledger:
    """The notes of all servers: how often each token's execution began and ended, and with whom."""

    begun: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    lines: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def read_journal(lines: Iterable[str]) -> Journal:
    """Read a client's notes; one that was killed has no last word."""
    journal = Journal()
    for line in lines:
        match line.rstrip("\n").split(" ", 6):
            case ["sent", token, server, tool]:
                journal.sent[token] = server, tool
            case ["told", token, outcome, ran, milliseconds, said, why]:
                journal.told[token].append(Told(outcome, ran, float(milliseconds), said, why))
            case ["stray", *words]:
                journal.strays.append(" ".join(words))
            case ["unreachable", *_]:
                journal.unreachable += 1
            case ["left"]:
                journal.has_left = True
            case words:
                raise ValueError(f"this is no note: {words}")
    return journal


def read_ledger(name: str, lines: Iterable[str], ledger: Ledger) -> None:
    """Add a server's notes."""
    for line in lines:
        word, token, *_ = line.split()
        (ledger.begun if word == "begin" else ledger.ended)[token] += 1
        ledger.lines[token].append(f"{name} {line.strip()}")


def read(folder: str) -> tuple[dict[str, Journal], Ledger]:
    """Read all notes of a run: the journals by serial number, and the ledger."""
    journals, ledger = {}, Ledger()
    for path in sorted(Path(folder).glob("journal.*")):
        with path.open() as lines:
            journals[path.suffix[1:]] = read_journal(lines)
    for path in sorted(Path(folder).glob("ledger.*")):
        with path.open() as lines:
            read_ledger(path.suffix[1:], lines, ledger)
    return journals, ledger


def judge(journals: Mapping[str, Journal], ledger: Ledger) -> list[Violation]:
    """Return everything that must not be."""
    found = [Violation("executed_twice", " | ".join(ledger.lines[one])) for one, n in ledger.begun.items() if n > 1]
    known = {token for journal in journals.values() for token in journal.sent}
    for token in ledger.begun:
        if token not in known and not token.startswith(f"{OWN_SERIAL}-"):
            found.append(Violation("never_sent", token))
    for serial, journal in journals.items():
        found += [Violation("stray", f"client {serial}: {stray}") for stray in journal.strays]
        for token, where in journal.sent.items():
            told = journal.told[token]
            found += _of_call(f"{token} {where}", token, told, ledger, must_be_told=journal.has_left)
    return found


def _of_call(what: str, token: str, told: list[Told], ledger: Ledger, *, must_be_told: bool) -> Iterator[Violation]:
    if len(told) > 1:
        yield Violation("answered_twice", f"{what}: {told}")
    if not told and must_be_told:
        yield Violation("unanswered", what)
    for one in told:
        if one.outcome in IMPOSSIBLE:
            yield Violation(one.outcome, f"{what}: {one}")
        if one.outcome in ANSWERS and one.said not in (token, "-"):
            yield Violation("wrong_token", f"{what}: {one}")
        if one.outcome in ("done", "tool_error") and not ledger.ended[token]:
            yield Violation("not_executed", f"{what}: {one}")
        if one.ran == "no" and ledger.begun[token]:
            yield Violation("did_run", f"{what}: {one}; {ledger.lines[token]}")


def of_log(text: str) -> list[Violation]:
    """Return what the daemons have logged about bugs of their own; a traceback up to its last line."""
    found: list[list[str]] = []
    is_open = False
    for line in text.splitlines():
        if is_open:
            found[-1].append(line)
            is_open = line.startswith(" ")
        elif any(sign in line for sign in SIGNS):
            found.append([line[:LINE_CHARACTERS]])
            is_open = line.startswith(SIGNS[0])
    return [Violation("logged", "\n  ".join(lines)) for lines in found]


def of_size(what: str, before: int, after: int, allowance: int) -> list[Violation]:
    """Compare a figure of the daemon after the run with that after the warm-up."""
    if after <= before + max(allowance, before // 10):
        return []
    return [Violation(what, f"{before} after the warm-up, {after} at the end")]
