"""What somebody can be asked: as clients declare it, and as each revision says it."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from mcpd.protocol.capabilities import NOTHING, Capabilities, read

ALL = Capabilities(form=True, url=True, sampling=True, sampling_tools=True, sampling_context=True, roots=True)


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ({}, NOTHING),
        ({"elicitation": {}}, Capabilities(form=True)),
        ({"elicitation": {"form": {}}}, Capabilities(form=True)),
        ({"elicitation": {"url": {}}}, Capabilities(url=True)),
        ({"elicitation": {"form": {}, "url": {}}}, Capabilities(form=True, url=True)),
        ({"elicitation": None, "sampling": None, "roots": None}, NOTHING),
        ({"sampling": {}}, Capabilities(sampling=True)),
        ({"sampling": {"tools": {}}}, Capabilities(sampling=True, sampling_tools=True)),
        ({"roots": {"listChanged": True}, "experimental": {"x": 1}}, Capabilities(roots=True)),
        ({"elicitation": []}, NOTHING),
        ([], NOTHING),
        ("x", NOTHING),
    ],
)
def test_what_is_declared_is_read_and_what_is_malformed_declares_nothing(declared: object, found: Capabilities) -> None:
    assert read(json.dumps(declared).encode()) == found


def test_what_is_absent_declares_nothing() -> None:
    assert read(b"") == NOTHING


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        ("2024-11-05", {"sampling": {}, "roots": {}}),
        ("2025-03-26", {"sampling": {}, "roots": {}}),
        ("2025-06-18", {"elicitation": {}, "sampling": {}, "roots": {}}),
        (
            "2025-11-25",
            {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {}},
        ),
    ],
)
def test_each_revision_is_told_in_its_own_words(revision: str, said: object) -> None:
    assert json.loads(ALL.to_json(revision)) == said


def test_forms_alone_are_said_as_every_revision_reads_them() -> None:
    assert Capabilities(form=True).to_json() == b'{"elicitation":{}}'
    assert Capabilities(url=True).to_json("2025-06-18") == b"{}"


def test_several_can_be_asked_what_any_of_them_can() -> None:
    assert Capabilities(form=True) | Capabilities(roots=True) == Capabilities(form=True, roots=True)


@pytest.mark.parametrize(
    ("who", "method", "params", "can"),
    [
        (Capabilities(form=True), "elicitation/create", b"{}", True),
        (Capabilities(form=True), "elicitation/create", b'{"mode":"form"}', True),
        (Capabilities(form=True), "elicitation/create", b'{"mode":"url"}', False),
        (Capabilities(url=True), "elicitation/create", b'{"mode":"url"}', True),
        (Capabilities(url=True), "elicitation/create", b"{}", False),
        (Capabilities(sampling=True), "sampling/createMessage", b"{}", True),
        (Capabilities(sampling=True), "sampling/createMessage", b'{"tools":[]}', False),
        (ALL, "sampling/createMessage", b'{"tools":[]}', True),
        (Capabilities(roots=True), "roots/list", b"", True),
        (ALL, "anything/else", b"{}", False),
        (Capabilities(form=True), "elicitation/create", b"[]", True),
    ],
)
def test_only_what_was_declared_can_be_asked(who: Capabilities, method: str, params: bytes, can: bool) -> None:
    assert who.can(method, Raw(params)) is can
