"""What holds for all methods at once; by its name it comes after the tests of the single ones."""

from __future__ import annotations

import importlib
import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.real.eras import CAN_ALL, MODERN, PINNED
from tests.real.matrix import OVERALL, ROWS, servers, speaking

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.real.eras import Eras

META = "io.modelcontextprotocol/"
MODULES = ("test_eras", "test_eras_asking", "test_eras_telling", "test_eras_everything", "test_eras_whole")
SDK_TABLES = """
import json
from mcp_types import methods as m
print(json.dumps({
    "c>s": [*m.CLIENT_REQUESTS, *m.CLIENT_NOTIFICATIONS],
    "s>c": [*m.SERVER_REQUESTS, *m.SERVER_NOTIFICATIONS],
}))
"""


def functions() -> dict[str, Callable[..., None]]:
    modules = [importlib.import_module(f"tests.real.{module}") for module in MODULES]
    return {name: value for module in modules for name, value in vars(module).items() if name.startswith("test_")}


def servers_in(function: Callable[..., None]) -> list[str]:
    marks = [mark for mark in getattr(function, "pytestmark", []) if mark.args and mark.args[0] == "server"]
    return [name for mark in marks for name in mark.args[1]]


@pytest.mark.parametrize("row", ROWS)
def test_every_method_has_a_test_in_every_revision_that_knows_it(row: str) -> None:
    found = functions()
    covered = [server for name in ROWS[row].tests for server in servers_in(found[name])]

    assert [server for server in speaking(ROWS[row].revisions) if server not in covered] == []


def test_every_test_shows_a_method() -> None:
    shown = {name for row in ROWS.values() for name in row.tests} | set(OVERALL)

    assert {name for name in functions() if not name.startswith("test_every_")} == shown


def test_every_method_that_the_sdk_knows_is_known(sdk: str) -> None:
    tables = json.loads(subprocess.run([sdk, "-c", SDK_TABLES], check=True, capture_output=True).stdout)
    theirs = {(f"{method} {way}", revision) for way, pairs in tables.items() for method, revision in pairs}
    ours = {(row, revision) for row, about in ROWS.items() for revision in about.revisions if "*" not in row}

    # What a modern server asks is part of a result, and it takes back nothing but a subscription.
    asks = {"elicitation/create s>c", "sampling/createMessage s>c", "roots/list s>c"}
    assert ours - theirs == {(ask, MODERN) for ask in asks}
    assert theirs - ours == {("notifications/cancelled s>c", MODERN)}


@servers()
def test_a_server_hears_only_what_its_revision_knows(eras: Eras, server: str) -> None:
    known = {row.split()[0] for row, about in ROWS.items() if "c>s" in row and PINNED[server] in about.revisions}
    heard = eras.records[server].heard()

    assert len(heard) > 0
    assert {each["method"] for each in heard if "method" in each} <= known
    if server == "modern":
        assert [each for each in heard if "method" not in each] == []


@servers()
def test_requests_carry_the_metadata_of_their_era(eras: Eras, server: str) -> None:
    with eras.host() as host, eras.host(can={}) as poor:
        assert host.call(server, "capabilities") != poor.call(server, "capabilities") or server != "modern"

    requests = [each for each in eras.records[server].heard() if "id" in each and "method" in each]
    metas = [each.get("params", {}).get("_meta", {}) for each in requests]
    if server != "modern":
        assert [key for meta in metas for key in meta if key.startswith(META)] == []
        return
    assert {meta[f"{META}protocolVersion"] for meta in metas} == {MODERN}
    assert {meta[f"{META}clientInfo"]["name"] for meta in metas} == {"mcpd"}
    rich, poorer = [meta[f"{META}clientCapabilities"] for meta in metas[-2:]]
    assert (rich.keys(), poorer) == (CAN_ALL.keys(), {})
