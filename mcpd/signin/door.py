"""What the command line calls: it knows no SDK, no event loop and no configuration of the daemon's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from mcpd.config.load import load
from mcpd.config.model import Config, Server
from mcpd.config.state import credentials_folder
from mcpd.errors import Denied, McpdError, Misconfigured, UnknownServer
from mcpd.upstream.credential import Credential, Refused, resource_of
from mcpd.upstream.vault import Busy, Vault

from . import browser, report, scopes
from .entry import Entry, entry_of
from .problems import SignInFailed

Say = Callable[[str], None]
INSTALL = "pip install '.[oauth]', or: pip install 'mcp>=2.3,<3'"


class Door:
    """Sign-ins of this user.

    Args:
        config: the file that was named, if one was.
        project: the folder of the user's project.
        say: tells the user something.
    """

    def __init__(self, config: str | None, project: str | None, say: Say) -> None:
        self._config: Config = load(config, os.environ)
        self._project, self._say = project, say
        self._vault = Vault(credentials_folder())

    def login(
        self,
        name: str,
        *,
        browser_cmd: str | None = None,
        no_browser: bool = False,
        scope: str | None = None,
        patience_seconds: float = 300.0,
        terminal: int | None = None,
        asked: Mapping[str, Any] | None = None,
        verbose: bool = False,
    ) -> dict[str, Any]:
        """Sign in to a server; return its row, as `mcpd auth` shows it.

        Args:
            name: of the server.
            browser_cmd: opens the page instead of the usual command.
            no_browser: nothing opens it; the user does.
            scope: what to ask for.
            patience_seconds: how long the user may take.
            terminal: where the user can type, if there is a user.
            asked: the details of the daemon's error.
            verbose: whether the libraries may be heard.

        Raises:
            McpdError: It did not work.
            KeyboardInterrupt: The user has stopped it.
        """
        entry = self._entry(name)
        if scope is not None and not scopes.is_proper(scope):
            raise SignInFailed("the scopes are no list of scopes", server=name)
        command = None
        if entry.is_interactive and not no_browser:
            command = self._opener(entry, browser_cmd)
            if command is None and terminal is None:
                raise SignInFailed(
                    f"signing in to {name} needs a browser, and nothing here opens one", server=name,
                    hint=f"run it in a terminal, or: mcpd login {name} --browser-cmd COMMAND, or with --no-browser",
                )  # fmt: skip
        try:
            from .signin import Wishes, sign_in
        except ModuleNotFoundError as error:
            why = f"signing in needs a package that is not installed: {error.name}"
            raise SignInFailed(why, server=name, hint=INSTALL) from None
        wishes = Wishes(
            command=command,
            # Whoever asks for no browser may also paste through a pipe.
            pasted_from=terminal if command is None else None,
            scopes=scopes.union(scope),
            patience_seconds=patience_seconds,
            asked=asked,
            verbose=verbose,
        )
        return report.row(name, sign_in(entry, wishes, self._vault, self._say))

    def logout(self, name: str) -> list[dict[str, Any]]:
        """Sign out of a server: revoke, remove; return what there was, each with `problem` if it was not revoked.

        Raises:
            McpdError: There is no such server, or a file cannot be removed.
        """
        # Also of one that is disabled: whoever takes leave of a server may do that first.
        entry = entry_of(self._server(name), os.environ, self._project)
        resource = resource_of(entry.url)
        return [self._forget(one, name, entry) for one in self._all() if resource_of(one.resource) == resource]

    def logout_all(self) -> list[dict[str, Any]]:
        """Sign out of everything, also of what is not configured any more.

        Raises:
            McpdError: A file cannot be removed.
        """
        entries: dict[str, Entry] = {}
        for server in self._remote().values():
            try:
                entry = entry_of(server, os.environ, self._project)
            except McpdError:  # without it there is a revocation less, and a problem that is told
                continue
            entries.setdefault(resource_of(entry.url), entry)
        found = []
        for one in self._all():
            entry_ = entries.get(resource_of(one.resource))
            found.append(self._forget(one, entry_.name if entry_ else None, entry_))
        return found

    def rows(self, name: str | None = None) -> list[dict[str, Any]]:
        """Return what there is of sign-ins: `report.rows`.

        Raises:
            McpdError: There is no such server.
        """
        chosen = {name: self._server(name)} if name is not None else self._remote()
        urls = {}
        for server in chosen.values():
            try:
                urls[server.name] = entry_of(server, os.environ, self._project).url
            except McpdError:
                if name is not None:
                    raise
        found = report.rows(urls, self._all())
        return [one for one in found if one["server"] is not None] if name is not None else found

    # --------------------------------------------------------------------------------------------

    def _server(self, name: str) -> Server:
        if (problem := self._config.wrong.get(name)) is not None:
            raise problem.error()
        if self._config.unusable:
            raise Misconfigured(self._config.problems[0].sentence, hint=self._config.problems[0].hint)
        if (server := self._config.servers.get(name)) is None:
            raise UnknownServer(f"there is no server {name!r}", server=name, hint="mcpd ls")
        return server

    def _entry(self, name: str) -> Entry:
        server = self._server(name)
        if not server.enabled:
            raise Denied(f"server {name} is disabled", server=name, hint="set enabled = true in its entry")
        return entry_of(server, os.environ, self._project)

    def _remote(self) -> dict[str, Server]:
        return {name: server for name, server in self._config.servers.items() if report.takes_token(server)}

    def _opener(self, entry: Entry, browser_cmd: str | None) -> tuple[str, ...] | None:
        try:
            return browser.opener(browser_cmd, os.environ)
        except browser.NoSuchCommand as problem:
            raise SignInFailed(str(problem), server=entry.name) from None

    def _all(self) -> list[Credential]:
        found, refused = self._vault.all()
        for problem in refused:
            self._say(f"{problem}; {problem.hint}\n")
        return found

    def _forget(self, credential: Credential, name: str | None, entry: Entry | None) -> dict[str, Any]:
        """Revoke a credential and remove its file, whatever the revocation says."""
        found = report.row(name, credential)
        try:
            with self._vault.locked(credential.issuer, credential.resource):
                # What the daemon may have refreshed since it was listed.
                now = self._vault.read(credential.issuer, credential.resource)
                self._vault.remove(credential.issuer, credential.resource)
        except (Refused, Busy) as problem:
            raise SignInFailed(
                f"the credential is not removed: {problem}", server=name, hint=getattr(problem, "hint", None)
            ) from None
        except OSError as error:
            raise SignInFailed(
                f"the credential is not removed: {error.strerror}: {self._vault.path}", server=name
            ) from None
        found["revoked"] = credential.endpoints.revocation is not None and credential.tokens is not None
        if problem_ := self._revoke(now or credential, entry):
            found |= {"revoked": False, "problem": problem_}
        return found

    def _revoke(self, credential: Credential, entry: Entry | None) -> str | None:
        try:
            from .revoke import revoke
        except ModuleNotFoundError as error:
            return f"a package is not installed: {error.name}"
        return revoke(credential, entry)
