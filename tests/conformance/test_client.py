"""No scenario for clients is left out without a word, and each gets what it gives its client."""

from __future__ import annotations

import pytest

from tests.conformance.adapter import CIMD, oauth
from tests.conformance.client import EXTENSION, LEFT_OUT, Plan, options, plans, wanted
from tests.conformance.verdict import CLIENT_COUNTS


def suite_of(**more: list[str]) -> dict[str, list[str]]:
    """Return as many scenarios as there have to be."""
    counted = {f"{wire} {number}": [wire] for wire, count in CLIENT_COUNTS.items() for number in range(count)}
    return {**counted, **{name: [EXTENSION] for name in LEFT_OUT}, **more}


def test_every_scenario_is_tried_at_every_revision_that_it_is_for() -> None:
    found = [*plans(suite_of(own=[EXTENSION]))]

    assert len(found) == sum(CLIENT_COUNTS.values()) + 1
    assert Plan("2025-06-18 4", "2025-06-18") in found
    assert Plan("own", None) in found


def test_a_scenario_that_is_new_or_gone_is_noticed() -> None:
    with pytest.raises(AssertionError, match="2025-11-25 has 20 scenarios"):
        list(plans(suite_of(more=["2025-11-25"])))
    gone = suite_of()
    del gone["auth/dpop"]
    with pytest.raises(AssertionError, match="auth/dpop"):
        list(plans(gone))


def test_revisions_and_names_can_be_chosen() -> None:
    def chosen(*argv: str) -> list[bool]:
        given = options([*argv])
        return [
            wanted(plan, given) for plan in (Plan("auth/a", "2025-11-25"), Plan("b", "2026-07-28"), Plan("c", None))
        ]

    assert chosen() == [True, True, True]
    assert chosen("--wire", "2026-07-28") == [False, True, False]
    assert chosen("--only", "auth/*") == [True, False, False]
    assert chosen("--wire", EXTENSION, "--only", "b", "--only", "c") == [False, False, True]


def test_what_a_scenario_gives_its_client_becomes_settings_without_a_secret() -> None:
    given = {"name": "x", "client_id": "c", "client_secret": "hunter2", "issuer": "http://localhost:1"}

    assert oauth("auth/pre-registration", given) == {
        "client_id": "c", "issuer": "http://localhost:1", "client_secret": "${CLIENT_SECRET}",
    }  # fmt: skip
    assert oauth("auth/client-credentials-jwt", {"client_id": "c", "private_key_pem": "hunter2"}) == {
        "client_id": "c", "grant": "client_credentials", "private_key": "${PRIVATE_KEY}", "auth_method": "private_key_jwt",
    }  # fmt: skip
    assert oauth("auth/basic-cimd", {}) == {"client_metadata_url": CIMD}
    assert oauth("auth/metadata-default", {}) == {}
