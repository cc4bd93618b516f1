"""One world with real servers, each configured as its own README says."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tomllib
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.world import World, demo
from tests.real.bridges import KINDS, Bridged, SdkHost, hosts
from tests.real.eras import ALONE, EVERYTHING, PINNED, SERVER, Eras
from tests.signin.authority import BROWSER, Authority
from tests.signin.authority import authority as authorities

if TYPE_CHECKING:
    from collections.abc import Iterator

FROM_PYPI = ("mcp-server-time", "mcp-server-git", "mcp-server-fetch")
SDK = "mcp==2.3.0"
FROM_NPM = ("@modelcontextprotocol/client@2.4.0", "@modelcontextprotocol/sdk@1.32.2")
ISSUER = ("oidc-provider@9.13.3", "node@22.23.3")
PAGE = "<html><body><h1>A heading</h1><p>Some <b>bold</b> words.</p></body></html>"
PATIENCE_SECONDS = 150.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a registry; the plain test command leaves it out."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker("real")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where downloads go: kept in $MCPD_REAL_CACHE, else as fresh as on a new machine."""
    kept = os.environ.get("MCPD_REAL_CACHE")
    return Path(kept) if kept else tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def python(cache: Path) -> str:
    """A Python with the servers from PyPI, installed as their READMEs say: `pip install …`."""
    return _python(cache / "venv", *FROM_PYPI)


@pytest.fixture(scope="session")
def sdk(cache: Path) -> str:
    """A Python with the official SDK; the servers from PyPI may need another one."""
    return _python(cache / "sdk", SDK)


@pytest.fixture(scope="session")
def signing(cache: Path) -> str:
    """A Python with all that `pip install '.[oauth]'` brings, but for ourselves."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    return _python(cache / "signing", *project["dependencies"], *project["optional-dependencies"]["oauth"])


@pytest.fixture
def signing_world(signing: str, tmp_path: Path) -> Iterator[World]:
    """A world in which the browser goes where it is sent; `opened` there has a line for each page."""
    with World(patience_seconds=90) as world:
        world.command = (signing, "-m", "mcpd_client")
        script = tmp_path / "browser.py"
        script.write_text(BROWSER)
        world.env |= {"BROWSER": f"{sys.executable} {script} %s", "OPENED": f"{world.path}/opened"}
        yield world


@pytest.fixture
def authority() -> Iterator[Authority]:
    """An authorization server, and the MCP server that it protects."""
    with authorities() as found:
        yield found


@pytest.fixture(scope="session")
def node_modules(cache: Path) -> Path:
    """Both generations of the TypeScript SDK."""
    return _npm(cache, "typescript", *FROM_NPM)


@pytest.fixture(scope="session")
def node(cache: Path) -> Path:
    """A Node with `oidc-provider` beside it, which wants a newer one than there may be."""
    return _npm(cache, "issuer", *ISSUER) / ".bin/node"


def _npm(cache: Path, name: str, *packages: str) -> Path:
    folder = cache / name
    if not (folder / "complete").exists():
        quiet = ("--silent", "--no-audit", "--no-fund")
        command = ("npm", "install", *quiet, "--cache", cache / "npm", "--prefix", folder)
        subprocess.run([*command, *packages], check=True)
        (folder / "complete").touch()
    return folder / "node_modules"


def _python(venv: Path, *packages: str) -> str:
    program = str(venv / "bin/python")
    if not (venv / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        subprocess.run([program, "-m", "pip", "install", "-q", *packages], check=True)
        (venv / "complete").touch()
    return program


@pytest.fixture(scope="session")
def website(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a web server on this machine."""
    folder = tmp_path_factory.mktemp("website")
    (folder / "page.html").write_text(PAGE)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing: what is on stderr is the tests'."""


@pytest.fixture(scope="session")
def real(cache: Path, python: str) -> Iterator[World]:
    """All servers, each started by the first call that needs it."""
    with World(patience_seconds=PATIENCE_SECONDS) as world:
        env = {"npm_config_cache": str(cache / "npm")}
        files = world.path / "files"
        files.mkdir()
        world.configure(
            {
                "everything": npx("@modelcontextprotocol/server-everything", env=env),
                "memory": npx(
                    "@modelcontextprotocol/server-memory", env={**env, "MEMORY_FILE_PATH": f"{world.path}/memory.jsonl"}
                ),
                "filesystem": npx("@modelcontextprotocol/server-filesystem", str(files), env=env),
                "sequential-thinking": npx("@modelcontextprotocol/server-sequential-thinking", env=env),
                "time": {"command": python, "args": ["-m", "mcp_server_time"]},
                "time-legacy": {"command": python, "args": ["-m", "mcp_server_time"], "protocol": "legacy"},
                "git": {"command": python, "args": ["-m", "mcp_server_git", "--repository", _repository(world)]},
                "fetch": {
                    "command": python,
                    "args": ["-m", "mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips"],
                },
            }
        )
        yield world


@pytest.fixture(scope="session")
def eras(cache: Path, sdk: str) -> Iterator[Eras]:
    """The SDK's server in every revision, and one from npm, all running and asked by a client that can do all."""
    with World(patience_seconds=PATIENCE_SECONDS) as world:
        found = Eras(world)
        (world.path / "project/.git").mkdir(parents=True)
        entries = {name: found.entry(name, sdk, SERVER, protocol=name) for name in PINNED}
        package = ("npx", "-y", "@modelcontextprotocol/server-everything")
        entries[EVERYTHING] = found.entry(EVERYTHING, *package, env={"npm_config_cache": str(cache / "npm")})
        entries[ALONE] = found.entry(ALONE, sdk, SERVER, protocol="legacy", scope="client")
        world.configure(entries)
        assert world.run("up", "-q").status == 0
        # Legacy servers are told once, at their start, what there is: this client stays, and asks for nothing more.
        with found.host() as resident:
            resident.sock.settimeout(PATIENCE_SECONDS)
            calls = [resident.send_call("echo", {"message": ""}, server=name) for name in (*PINNED, EVERYTHING)]
            assert [call for call in calls if "result" not in resident.wait(call)] == []
            yield found
            assert resident.asked() == []


@pytest.fixture(scope="session")
def bridged(sdk: str, node_modules: Path) -> Iterator[Bridged]:
    """The SDK's server in both eras, and hosts of both SDKs that reach it by bridges."""
    with World(patience_seconds=PATIENCE_SECONDS) as world, hosts(world, sdk, node_modules) as sockets:
        found = Bridged(world, sockets=sockets)
        (world.path / "project/.git").mkdir(parents=True)
        entries = {name: found.entry(name, sdk, SERVER, protocol=name) for name in ("legacy", "modern")}
        entries[ALONE] = found.entry(ALONE, sdk, SERVER, protocol="legacy", scope="client")
        # And one that starts at once.
        world.configure({**entries, "demo": demo()})
        assert world.run("up", "-q").status == 0
        # Legacy servers are told once, at their start, what there is; this client stays.
        assert found.kept(KINDS["python-legacy"], "legacy").call("echo", text="first") == "first"
        yield found
        found.close()


@pytest.fixture(params=["legacy", "modern"])
def server(request: pytest.FixtureRequest) -> str:
    """The name of the server behind the bridge."""
    return str(request.param)


@pytest.fixture(params=KINDS)
def host(bridged: Bridged, server: str, request: pytest.FixtureRequest) -> SdkHost:
    """A host of each kind; it stays for all tests."""
    return bridged.kept(KINDS[request.param], server)


def npx(package: str, *arguments: str, **more: object) -> dict[str, object]:
    """The entry that the READMEs of the servers from npm show."""
    # The first npx of a package downloads it.
    return {"command": "npx", "args": ["-y", package, *arguments], "timeout": {"start_seconds": 120}, **more}


def _repository(world: World) -> str:
    """A repository with one commit and one change that is not committed."""
    path = world.path / "repository"
    path.mkdir()
    git = ("git", "-C", str(path), "-c", "user.name=A. Tester", "-c", "user.email=a@example.org")
    (path / "file.txt").write_text("first\n")
    for command in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "the first commit")):
        subprocess.run([*git, *command], check=True)
    (path / "file.txt").write_text("second\n")
    return str(path)
