"""The commands without the SDK: what they need of it they say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpd.errors import McpdError
from mcpd.signin.door import Door
from mcpd.upstream.credential import Client, Credential, Endpoints, Tokens
from mcpd.upstream.vault import Vault
from mcpd_client.cli.main import main
from tests.signin.authority import Authority, authority

ROOT = Path(__file__).parents[2]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server() -> Iterator[Authority]:
    with authority() as found:
        yield found


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Authority) -> Vault:
    """That of a user who has two remote servers and no daemon."""
    home = tmp_path / "home"
    (home / ".config/mcpd").mkdir(parents=True)
    (home / ".config/mcpd/config.toml").write_text(
        f'[servers.s]\nurl = "{server.url}"\n[servers.t]\nurl = "https://t.example/mcp"\n[servers.local]\ncommand = "cat"\n'
        '[servers.keyed]\nurl = "https://k.example/mcp"\nbearer_env = "TOKEN"\n[servers.off]\nurl = "https://o.example"\nenabled = false\n'
    )
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "MCPD_CONFIG", "BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MCPD_SOCKET", str(tmp_path / "no-daemon"))
    monkeypatch.setenv("MCPD_NO_AUTOSTART", "1")
    return Vault(str(home / ".local/state/mcpd/credentials"))


def put(vault: Vault, server: Authority, resource: str | None = None) -> Credential:
    credential = Credential(
        version=1,
        resource=resource or server.url,
        issuer=server.issuer,
        client=Client(client_id="me", registration="dynamic", token_endpoint_auth_method="none"),
        endpoints=Endpoints(token=f"{server.origin}/token", revocation=f"{server.origin}/revoke"),
        tokens=Tokens(access_token="access-1", token_type="Bearer", refresh_token="refresh-1", scope="a b"),
        saved_at=0,
    )
    with vault.locked(credential.issuer, credential.resource):
        return vault.write(credential)


def test_auth_lists_all_servers_that_take_a_sign_in(vault: Vault, server: Authority, capfd: Capture) -> None:
    put(vault, server)
    put(vault, server, "https://gone.example/mcp")

    assert main(["auth", "--json"]) == 0

    out, err = capfd.readouterr()
    found = [(one["server"], one["state"]) for one in json.loads(out)["credentials"]]
    assert found == [("s", "signed_in"), ("t", "not_signed_in"), ("off", "not_signed_in"), (None, "signed_in")]
    assert "access-1" not in out + err
    assert "refresh-1" not in out + err


@pytest.mark.parametrize(("name", "status"), [("s", 0), ("t", 3), ("local", 2), ("keyed", 2), ("nowhere", 2)])
def test_auth_of_one_server_says_by_its_status_whether_somebody_is_signed_in(
    vault: Vault, server: Authority, name: str, status: int
) -> None:
    put(vault, server)

    assert main(["auth", name]) == status


@pytest.mark.parametrize("revocation", [200, 500])
def test_signing_out_of_one_server_leaves_the_others(
    vault: Vault, server: Authority, capfd: Capture, revocation: int
) -> None:
    put(vault, server)
    other = put(vault, server, "https://gone.example/mcp")
    server.revocation = revocation

    assert main(["logout", "s"]) == 0

    out, err = capfd.readouterr()
    assert out == f"signed out of s (issuer {server.issuer})\n"
    assert ("was not revoked" in err) is (revocation == 500)
    assert vault.all()[0] == [other]
    assert server.seen("/revoke")[0]["token"] == "refresh-1"


def test_whoever_has_disabled_a_server_can_sign_out_of_it(vault: Vault, server: Authority) -> None:
    put(vault, server, "https://o.example")

    assert main(["logout", "off"]) == 0

    assert vault.all() == ([], [])


def test_signing_out_of_all_servers_leaves_nothing(vault: Vault, server: Authority, capfd: Capture) -> None:
    put(vault, server)
    put(vault, server, "https://gone.example/mcp")

    assert main(["logout", "--all", "--json"]) == 0

    gone: list[Any] = json.loads(capfd.readouterr().out)["signed_out"]
    assert sorted(str(one["server"]) for one in gone) == ["None", "s"]
    assert vault.all() == ([], [])


def test_signing_out_twice_is_no_error(vault: Vault, capfd: Capture) -> None:
    assert main(["logout", "s"]) == 0

    assert capfd.readouterr() == ("", "nobody was signed in to s\n")


@pytest.mark.parametrize(
    "argv", [["logout"], ["logout", "s", "--all"], ["login"], ["logout", "local"], ["login", "local"]]
)
def test_what_makes_no_sense_is_a_usage_error(vault: Vault, argv: list[str]) -> None:
    assert main(argv) == 2


@pytest.mark.parametrize(
    ("name", "status", "why"),
    [
        ("off", 8, "is disabled"),
        ("nowhere", 2, "there is no server 'nowhere'"),
        ("keyed", 2, "has a token in its entry"),
    ],
)
def test_a_server_that_cannot_be_signed_in_to_says_why(
    vault: Vault, capfd: Capture, name: str, status: int, why: str
) -> None:
    assert main(["login", name, "--browser-cmd", "true"]) == status

    assert why in capfd.readouterr().err


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ([], "needs a browser, and nothing here opens one"),
        (["--browser-cmd", "/no/such/browser"], "there is no command '/no/such/browser'"),
        (["--scopes", 'a"b'], "no list of scopes"),
    ],
)
def test_a_sign_in_that_cannot_begin_asks_nobody(
    vault: Vault, server: Authority, monkeypatch: pytest.MonkeyPatch, capfd: Capture, argv: list[str], why: str
) -> None:
    monkeypatch.setattr("os.isatty", lambda fd: False)

    assert main(["login", "s", *argv]) == 3

    assert why in capfd.readouterr().err
    assert server.requests == []


def test_without_the_sdk_it_says_what_to_install(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    for name in [name for name in sys.modules if name.startswith(("mcp.", "mcpd.signin.signin"))]:
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(McpdError) as caught:
        Door(None, None, lambda text: None).login("s", browser_cmd="true")

    assert caught.value.hint is not None
    assert ".[oauth]" in caught.value.hint


@pytest.mark.parametrize("module", ["mcpd.daemon", "mcpd.signin.door", "mcpd_client.cli.auth"])
def test_the_sdk_is_loaded_by_nothing_but_a_sign_in(module: str) -> None:
    script = f"import sys, {module}; print([n for n in sys.modules if n.partition('.')[0] in ('mcp', 'pydantic')])"
    env = {"PYTHONPATH": f"{ROOT}:{ROOT}/client"}

    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
