"""The conformance suite itself: where it comes from, one run of it, and what it has written down."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import trio

from tests.conformance.verdict import COUNTS, Check, listed, required

VERSION = "0.2.0-alpha.12"
PACKAGES = ("node@22", f"@modelcontextprotocol/conformance@{VERSION}")
RUN_SECONDS = 180.0
# A client has half a minute by itself; nothing is said of how busy the machine is.
CLIENT_SECONDS = 120.0


@dataclass(frozen=True)
class Run:
    """What the suite said; `log` is the text that it wrote."""

    status: int
    results: dict[str, list[Check]]
    log: str = ""


class Suite:
    """An installed suite, and the Node that it needs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._package = path / "node_modules/@modelcontextprotocol/conformance"

    def required(self, wire: str) -> list[str]:
        """Return the scenarios that a revision requires of servers."""
        names = required((self._package / f"requirements/{wire}.yaml").read_text())
        assert len(names) == COUNTS[wire], f"{wire} requires {len(names)} scenarios"
        return names

    async def run(self, url: str, wire: str, folder: Path) -> Run:
        """Try all scenarios of a revision on the server at that address; `folder` is for what it writes."""
        status, said = await self._node(folder, "server", "--url", url, "--requirements", wire, "-o", folder)
        return Run(status, _results(folder, "server-"), said)

    async def client_scenarios(self, folder: Path) -> dict[str, list[str]]:
        """Return all scenarios for clients, each with the revisions that it is for, or `extension`."""
        status, said = await self._node(folder, "list", "--client")
        assert status == 0, said
        return listed(said)

    async def try_client(self, command: str, scenario: str, revision: str | None, folder: Path) -> Run:
        """Try one scenario on a client.

        Args:
            command: what is run with the address of the server as its last argument; a shell reads it.
            scenario: its name.
            revision: what the server speaks; None for a scenario of an extension.
            folder: for what is written.
        """
        wire = ["--spec-version", revision] if revision else []
        limit = ("--timeout", f"{CLIENT_SECONDS * 1000:.0f}")
        given = ("client", "--command", command, "--scenario", scenario, *wire, *limit, "-o", folder)
        status, said = await self._node(folder, *given)
        return Run(status, _results(folder), said)

    async def _node(self, folder: Path, *argv: str | Path) -> tuple[int, str]:
        """Run the suite's own command; return its exit code and all that it said."""
        program = [self._path / "node_modules/.bin/node", self._package / "dist/index.js"]
        env = {"PATH": os.defpath, "HOME": str(folder), "NO_COLOR": "1"}
        with trio.fail_after(RUN_SECONDS):
            done = await trio.run_process(
                [*map(str, (*program, *argv))],
                capture_stdout=True, stderr=subprocess.STDOUT, check=False, env=env, cwd=folder,
            )  # fmt: skip
        (folder / "suite.log").write_bytes(done.stdout)
        return done.returncode, done.stdout.decode(errors="replace")


def _results(folder: Path, prefix: str = "") -> dict[str, list[Check]]:
    found = {}
    for file in folder.rglob("checks.json"):
        # The name of a scenario may have a slash, and is a path then.
        name = re.fullmatch(rf"{prefix}(.+)-\d{{4}}-\d\d-\d\dT[\d-]+Z", str(file.parent.relative_to(folder)))
        assert name, file
        checks = json.loads(file.read_text())
        found[name[1]] = [Check(each["id"], each["status"], _told(each)) for each in checks]
    return found


def _told(check: dict[str, object]) -> str:
    return f"{check.get('errorMessage', '')} {json.dumps(check.get('details', {}))[:2000]}"


def install() -> Suite:
    """Return the suite from the cache folder; the first time it is fetched from npm."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcpd-tests"
    path = cache / f"conformance-{VERSION}"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        fresh = Path(mkdtemp(prefix="conformance-", dir=cache))
        command = ("npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(fresh), *PACKAGES)
        try:
            subprocess.run(command, check=True, cwd=fresh, stdin=subprocess.DEVNULL)
            fresh.rename(path)
        except BaseException:
            shutil.rmtree(fresh)
            raise
    return Suite(path)
