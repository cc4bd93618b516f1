"""A place to sign in at: an authorization server, a server that wants its tokens, and somebody at a browser."""

from __future__ import annotations

import json
import shlex
import shutil
from base64 import b64encode
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import Request

from tests.integration.world import World, until
from tests.real.browser import Browser, direct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.world import Done

HERE = Path(__file__).parent
PATIENCE_SECONDS = 120.0
SECRET = "of-the-resource-server"
# Long enough for a call or two, short enough to wait for its end.
TOKEN_SECONDS = 10
SUBMIT = "button[type=submit]"


class Realm:
    """An issuer and the server that trusts it, which every entry of the configuration is about.

    Attributes:
        issuer: the address of the authorization server.
        url: the address of the server that is guarded by it.
    """

    def __init__(self, world: World, python: str, node: Path) -> None:
        self.world = world
        self._children: list[Any] = []
        # Node looks for packages beside the program.
        program = shutil.copy(HERE / "issuer.mjs", node.parents[2])
        wanted = json.dumps({"secret": SECRET, "seconds": TOKEN_SECONDS})
        self.issuer = json.loads(self._start("issuer", str(node), str(program), wanted))["issuer"]
        self.url = self._start("server", python, str(HERE / "guarded_server.py"), self.issuer, SECRET)
        self._hook = world.path / "browser.sh"
        self._asked = world.path / "asked"
        asked = shlex.quote(str(self._asked))
        self._hook.write_text(f'#!/bin/sh\nprintf %s "$1" > {asked}.new && mv {asked}.new {asked}\n')
        self._hook.chmod(0o700)

    def _start(self, name: str, *argv: str) -> str:
        """Start a program and return its first line."""
        out, err = (self.world.path / f"{name}.{end}" for end in ("out", "err"))
        with out.open("w") as said, err.open("w") as complained:
            self._children.append(self.world.spawn(*argv, stdout=said, stderr=complained))
        return until(lambda: out.read_text().partition("\n")[0] or None, seen=err.read_text)

    def close(self) -> None:
        """End both programs."""
        for child in self._children:
            child.terminate()
            child.wait(PATIENCE_SECONDS)

    # -- the person --------------------------------------------------------------------------------

    def begin(self, *argv: str) -> Callable[[], Done]:
        """Start a command that will want a browser; what is returned waits for its end."""
        self._asked.unlink(missing_ok=True)
        return self.world.begin(*argv, env={**self.world.env, "BROWSER": str(self._hook)})

    def login(self, name: str, *argv: str) -> Callable[[], Done]:
        """Start `mcpd login` with a command of its own for the browser."""
        return self.begin("login", name, "--browser-cmd", str(self._hook), *argv)

    @contextmanager
    def page(self) -> Iterator[Browser]:
        """Open a browser that has never been used on the page that a command wants seen."""
        address = until(lambda: self._asked.exists() and self._asked.read_text(), seconds=PATIENCE_SECONDS)
        with Browser(self.world, self.world.path / "browser") as browser:
            browser.open(address)
            yield browser
        shutil.rmtree(self.world.path / "browser")

    def agree(self, person: str) -> None:
        """Have somebody sign in and consent, and see mcpd's own page at the end."""
        with self.page() as browser:
            browser.wait_for("Sign-in", self.issuer)
            browser.write("input[name=login]", person)
            browser.write("input[name=password]", "anything")
            browser.click(SUBMIT)
            assert self.url in browser.wait_for("Authorize", self.issuer)
            browser.click(SUBMIT)
            browser.wait_for("mcpd has the answer", "http://127.0.0.1:")

    def refuse(self) -> None:
        """Have somebody cancel, and see mcpd's own page at the end."""
        with self.page() as browser:
            browser.wait_for("Sign-in", self.issuer)
            browser.follow("Cancel")
            browser.wait_for("Not signed in", "http://127.0.0.1:")

    def sign_in(self, name: str, person: str = "alice") -> None:
        """Sign somebody in, from the command to its end."""
        end = self.login(name)
        self.agree(person)
        done = end()
        assert done.status == 0, done

    # -- what there is -----------------------------------------------------------------------------

    def did(self, what: str) -> list[dict[str, Any]]:
        """Return all that the authorization server has done of one kind."""
        lines = (self.world.path / "issuer.out").read_text().splitlines()
        return [each for line in lines if line.startswith("{") and (each := json.loads(line)).get("did") == what]

    def grants(self) -> list[str]:
        """Return the kinds of the grants that tokens have been given for."""
        return [grant["type"] for grant in self.did("grant")]

    def kept(self) -> list[dict[str, Any]]:
        """Return the credentials that are kept on this machine."""
        folder = self.world.path / "home/.local/state/mcpd/credentials"
        return [json.loads(path.read_text()) for path in folder.glob("*.json")]

    def tokens(self) -> dict[str, str]:
        """Return the tokens of the one credential that is kept."""
        (credential,) = self.kept()
        return {kind: credential["tokens"][kind] for kind in ("access_token", "refresh_token")}

    def is_good(self, token: str) -> bool:
        """Ask the authorization server whether a token is worth anything."""
        basic = b64encode(f"resource-server:{SECRET}".encode()).decode()
        return bool(
            json.loads(self._post("/token/introspection", {"token": token}, Authorization=f"Basic {basic}"))["active"]
        )

    def revoke(self, token: str) -> None:
        """Take a token back, as its client may."""
        (credential,) = self.kept()
        self._post("/token/revocation", {"token": token, "client_id": credential["client"]["client_id"]})

    def _post(self, path: str, form: dict[str, str], **headers: str) -> bytes:
        with direct.open(Request(self.issuer + path, urlencode(form).encode(), headers), timeout=30) as answer:
            return answer.read()  # type: ignore[no-any-return]


@contextmanager
def open_realm(python: str, node: Path) -> Iterator[Realm]:
    """Open a realm in a world of its own, with the same server as `legacy` and as `modern`; both end empty."""
    with World(patience_seconds=PATIENCE_SECONDS) as world:
        realm = Realm(world, python, node)
        try:
            world.configure({era: {"url": realm.url, "protocol": era} for era in ("legacy", "modern")})
            yield realm
            world.run("down")
        finally:
            realm.close()
