"""`mcpd login` from end to end, on the SDK: a browser that goes where it is sent, an authorization server that varies."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from typing import TYPE_CHECKING, Any

import pytest

from mcpd.upstream.vault import Vault
from tests.integration.world import Done, World, until
from tests.signin.authority import Authority
from tests.signin.authority import authority as authorities

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(signing_world: World) -> World:
    return signing_world


@pytest.fixture
def server(authority: Authority) -> Authority:
    return authority


def configure(world: World, server: Authority, **more: object) -> None:
    world.configure({"s": {"url": server.url, **more}})


def login(world: World, *options: str, **more: Any) -> Done:
    return world.run("login", "s", "--no-autostart", *options, command=world.command, **more)


def files(world: World) -> list[Path]:
    return [*(world.path / "home/.local/state/mcpd/credentials").glob("*.json")]


def kept(world: World) -> dict[str, Any]:
    (file,) = files(world)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_a_sign_in_leaves_a_credential_and_says_so_in_one_line(world: World, server: Authority) -> None:
    configure(world, server)
    server.needs = {"*": {"files"}}

    done = login(world)

    assert (done.status, done.out) == (0, f"signed in to s (issuer {server.issuer}, scopes files, expires in 2 h)\n"), (
        done
    )
    credential = kept(world)
    assert server.tokens[credential["tokens"]["access_token"]] == "files"
    assert credential["client"] == {
        "client_id": "client-1",
        "token_endpoint_auth_method": "none",
        "registration": "dynamic",
        "redirect_uri": server.seen("/register")[0]["redirect_uris"][0],
    }
    assert credential["endpoints"] == {
        "token": f"{server.origin}/token",
        "revocation": f"{server.origin}/revoke",
        "authorization": f"{server.origin}/authorize",
    }
    (asked,) = server.seen("/authorize")
    assert asked["resource"] == server.url
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/callback", asked["redirect_uri"])
    (registered,) = server.seen("/register")
    assert registered["application_type"] == "native"  # type: ignore[comparison-overlap]
    assert "refresh_token" in registered["grant_types"]


def test_no_token_is_ever_shown(world: World, server: Authority) -> None:
    configure(world, server)

    shown = [login(world, "-v"), login(world, "--json"), world.run("auth", "s", "--json"), world.run("auth", "s")]

    secrets = [*server.tokens, kept(world)["tokens"]["refresh_token"]]
    assert len(secrets) == 3
    assert [one.status for one in shown] == [0, 0, 0, 0], shown
    assert [secret for secret in secrets for one in shown if secret in one.out + one.err] == []


def test_signing_in_again_uses_the_same_registration(world: World, server: Authority) -> None:
    configure(world, server)

    assert [login(world).status, login(world).status] == [0, 0]

    assert [one["client_id"] for one in server.seen("/authorize")] == ["client-1", "client-1"]
    assert len(server.clients) == 1


def test_another_authorization_server_gets_nothing_of_the_first(world: World, server: Authority) -> None:
    configure(world, server)
    assert login(world).status == 0
    first = kept(world)["tokens"]
    with authorities() as other:
        server.issuer = other.issuer

        done = login(world)

        assert done.status == 0, done
        assert len(other.seen("/register")) == 1
        said = json.dumps(other.requests)
        assert [one for one in (first["access_token"], first["refresh_token"]) if one in said] == []
        assert kept(world)["issuer"] == other.issuer


def test_an_earlier_credential_that_somebody_holds_on_to_does_not_cost_the_new_one(
    world: World, server: Authority
) -> None:
    configure(world, server)
    assert login(world).status == 0
    earlier = kept(world)
    vault = Vault(str(world.path / "home/.local/state/mcpd/credentials"))
    with authorities() as other, vault.locked(earlier["issuer"], earlier["resource"]):
        server.issuer = other.issuer

        done = login(world)

        assert done.status == 0, done
        assert f"(issuer {other.issuer}," in done.out
    assert sorted(json.loads(file.read_text())["issuer"] for file in files(world)) == sorted(
        [earlier["issuer"], other.issuer]
    )


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"iss": "https://evil.example"}, "iss mismatch"),
        (
            {"error": "access_denied", "code": "", "error_description": "no\x1b[31m"},
            "refused the sign-in: access_denied: no",
        ),
        ({"error": "access_denied", "code": "", "iss": "https://evil.example"}, "iss mismatch"),
        ({"code": "wrong"}, "gives no token: invalid_grant: that code is not good"),
    ],
)
def test_an_answer_that_is_not_right_signs_nobody_in(
    world: World, server: Authority, how: dict[str, str], said: str
) -> None:
    configure(world, server)
    server.answers = how

    done = login(world)

    assert (done.status, done.out) == (3, ""), done
    assert said in done.err
    assert "\x1b" not in done.err
    assert files(world) == []


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"code_challenge_methods_supported": None}, "PKCE"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"issuer": "https://evil.example"}, "issuer mismatch"),
        ({"authorization_endpoint": "http://example.com/authorize"}, "http://example.com/authorize is not over https"),
        ({"token_endpoint": "http://example.com/token"}, "http://example.com/token is not over https"),
        ({"registration_endpoint": "http://example.com/x"}, "http://example.com/x is not over https"),
        ({"authorization_response_iss_parameter_supported": True}, "missing iss"),
    ],
)
def test_metadata_that_is_not_right_signs_nobody_in(
    world: World, server: Authority, metadata: dict[str, Any], said: str
) -> None:
    configure(world, server)
    server.metadata = metadata

    done = login(world)

    assert done.status == 3, done
    assert said in done.err
    assert files(world) == []


def test_a_server_that_goes_by_another_address_is_told_with_what_to_do(world: World, server: Authority) -> None:
    configure(world, server)
    server.resource = {"resource": "https://other.example/mcp"}

    done = login(world)

    assert done.status == 3, done
    assert "https://other.example/mcp" in done.err
    assert "into url of server s" in done.err
    assert files(world) == []


def test_a_server_without_a_sign_in_is_told_apart(world: World, server: Authority) -> None:
    configure(world, server)
    server.resource = None
    server.tokens = {"": ""}  # whoever has no token may come in

    done = login(world)

    assert done.status == 3, done
    assert "server s does not ask for a sign-in: it answers with HTTP 200" in done.err
    assert server.seen("/register") == []


def test_without_metadata_the_endpoints_of_old_are_used(world: World, server: Authority) -> None:
    """Of 2025-03-26."""
    configure(world, server)
    server.resource = None

    done = login(world)

    assert done.status == 0, done
    assert kept(world)["endpoints"]["token"] == f"{server.origin}/token"


@pytest.mark.parametrize(("listed", "method"), [(["client_secret_post"], "post"), (None, "basic")])
def test_a_configured_client_is_not_registered_and_its_secret_stays_where_it_is(
    world: World, server: Authority, listed: list[str] | None, method: str
) -> None:
    world.env["SECRET"] = "s3cret/of the client"
    configure(world, server, oauth={"client_id": "mine", "client_secret": "${SECRET}", "issuer": server.issuer})
    server.metadata = {"token_endpoint_auth_methods_supported": listed}

    done = login(world)

    assert done.status == 0, done
    assert server.seen("/register") == []
    (fields,) = server.seen("/token")
    sent = fields["basic_secret"] if method == "basic" else fields["client_secret"]
    assert sent == "s3cret/of the client"
    assert kept(world)["client"] == {
        "client_id": "mine",
        "token_endpoint_auth_method": f"client_secret_{method}",
        "registration": "static",
    }


def test_a_configured_client_goes_to_its_own_authorization_server_alone(world: World, server: Authority) -> None:
    configure(
        world, server, oauth={"client_id": "mine", "client_secret": "s3cret-s3cret", "issuer": "https://id.example"}
    )

    done = login(world)

    assert done.status == 3, done
    assert "its entry names https://id.example" in done.err
    assert server.seen("/register") + server.seen("/token") + server.seen("/authorize") == []


def test_without_a_word_of_the_server_the_configured_authorization_server_is_asked_and_nobody_else(
    world: World, server: Authority
) -> None:
    with authorities() as other:
        configure(world, server, oauth={"client_id": "mine", "client_secret": "s3cret-s3cret", "issuer": other.issuer})
        server.resource = None

        done = login(world)

        assert done.status == 0, done
        assert kept(world)["issuer"] == other.issuer
        assert len(other.seen("/token")) == 1
    assert {path for _, path, _ in server.requests if "/.well-known/" not in path} == {"/mcp"}


def test_the_endpoints_of_an_authorization_server_that_was_named_are_not_guessed(
    world: World, server: Authority
) -> None:
    configure(world, server)
    server.issuer = f"{server.origin}/elsewhere"

    done = login(world)

    assert done.status == 3, done
    assert "does not say where its endpoints are" in done.err
    assert server.seen("/register") + server.seen("/authorize") == []


def test_the_secret_of_a_configured_client_goes_to_no_second_authorization_server(
    world: World, server: Authority
) -> None:
    configure(world, server, oauth={"client_id": "mine", "client_secret": "s3cret-s3cret"})
    assert login(world).status == 0
    with authorities() as other:
        server.issuer = other.issuer

        done = login(world)

        assert done.status == 3, done
        assert "the client of its entry was used at" in done.err
        assert other.requests == []


def test_a_folder_that_others_may_enter_is_refused_before_anybody_signs_in(world: World, server: Authority) -> None:
    configure(world, server)
    folder = world.path / "home/.local/state/mcpd/credentials"
    folder.mkdir(parents=True)
    folder.chmod(0o755)

    done = login(world)

    assert done.status == 3, done
    assert "chmod 700" in done.err
    assert server.requests == []


def test_a_published_client_needs_no_registration(world: World, server: Authority) -> None:
    mine = "https://example.com/client.json"
    configure(world, server, oauth={"client_metadata_url": mine})
    server.metadata = {"client_id_metadata_document_supported": True}

    done = login(world)

    assert done.status == 0, done
    assert [one["client_id"] for one in server.seen("/authorize")] == [mine]
    assert kept(world)["client"] == {"client_id": mine, "token_endpoint_auth_method": "none", "registration": "cimd"}


def test_a_client_without_a_user_signs_in_by_itself(world: World, server: Authority) -> None:
    oauth = {"grant": "client_credentials", "client_id": "robot", "client_secret": "s3cret-s3cret", "scopes": ["files"]}
    configure(world, server, oauth=oauth)
    del world.env["BROWSER"]

    done = login(world)

    assert done.status == 0, done
    (fields,) = server.seen("/token")
    assert (fields["grant_type"], fields["scope"], fields["basic_id"]) == ("client_credentials", "files", "robot")
    assert fields["resource"] == server.url


@pytest.mark.parametrize(
    ("listed", "options", "scope"),
    [
        (None, (), None),
        (["a", "b"], (), "a b"),
        (["a", "b"], ("--scopes", "b c"), "b c"),
    ],
)
def test_scopes_are_those_of_the_user_or_of_the_resource_or_none(
    world: World, server: Authority, listed: list[str] | None, options: tuple[str, ...], scope: str | None
) -> None:
    configure(world, server)
    server.naming = set()
    server.resource = {} if listed is None else {"scopes_supported": listed}
    server.metadata = {"scopes_supported": ["everything", "else"]}

    done = login(world, *options)

    assert done.status == 0, done
    assert [one.get("scope") for one in server.seen("/authorize")] == [scope]


def test_without_a_browser_and_a_terminal_it_says_what_to_do(world: World, server: Authority) -> None:
    configure(world, server)
    world.env = {key: value for key, value in world.env.items() if key not in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")}

    done = login(world)

    assert done.status == 3, done
    assert "nothing here opens one" in done.err
    assert "--no-browser" in done.err
    assert server.requests == []


def test_the_address_of_the_last_page_can_be_pasted(world: World, server: Authority) -> None:
    configure(world, server)
    child = world.spawn(*world.command, "login", "s", "--no-browser", "--no-autostart")
    assert child.stdin is not None
    assert child.stderr is not None
    page = next(line for line in child.stderr if line.startswith("http")).strip()
    code = "code-of-the-page"
    fields = dict(pair.split("=", 1) for pair in page.partition("?")[2].split("&"))
    server.codes[code] = {
        "code_challenge": fields["code_challenge"],
        "redirect_uri": fields["redirect_uri"].replace("%3A", ":").replace("%2F", "/"),
    }

    child.stdin.write(f"nonsense\nhttp://127.0.0.1:1/callback?code={code}&state={fields['state']}\n")
    child.stdin.flush()

    out, err = child.communicate(timeout=world.patience_seconds)
    assert child.returncode == 0, err
    assert "signed in to s" in out
    assert "that is not the address" in err


def test_nobody_waits_for_ever(world: World, server: Authority) -> None:
    configure(world, server)
    world.env["BROWSER"] = "true"

    done = login(world, "--timeout", "0.2")

    assert done.status == 3, done
    assert "nobody has signed in to s within 0.2 s" in done.err


def test_an_interrupted_sign_in_leaves_nothing(world: World, server: Authority) -> None:
    configure(world, server)
    world.env["BROWSER"] = "true"
    child = world.spawn(*world.command, "login", "s", "--no-autostart")
    assert child.stderr is not None
    until(lambda: "waiting for its answer" in child.stderr.readline())

    os.kill(child.pid, signal.SIGINT)

    _, err = child.communicate(timeout=world.patience_seconds)
    assert (child.returncode, err) == (130, "")
    assert files(world) == []


@pytest.mark.parametrize("status", [200, 503])
def test_signing_out_revokes_and_removes_whatever_the_server_says(world: World, server: Authority, status: int) -> None:
    configure(world, server)
    assert login(world).status == 0
    tokens = kept(world)["tokens"]
    server.revocation = status

    done = world.run("logout", "s", command=world.command)

    assert done.status == 0, done
    revoked = [(one["token_type_hint"], one["token"], one["client_id"]) for one in server.seen("/revoke")]
    assert revoked[0] == ("refresh_token", tokens["refresh_token"], "client-1")
    assert done.out == f"signed out of s (issuer {server.issuer})\n"
    assert ("HTTP 503" in done.err) is (status == 503)
    assert files(world) == []
    assert world.run("auth", "s").status == 3
