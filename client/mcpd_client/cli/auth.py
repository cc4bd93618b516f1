"""`login`, `logout`, `auth`: signing in to remote servers, in this process.

The daemon opens no browser: it is told afterwards that there is a credential now, or none any more.
"""

from __future__ import annotations

import os

from mcpd_client.cli.options import Command
from mcpd_client.cli.render import (
    Style,
    clean,
    clean_line,
    dump,
    format_age,
    print_note,
    print_out,
    table,
    terminal_columns,
)
from mcpd_client.cli.session import open_client
from mcpd_client.errors import EXIT_SIGN_IN, DaemonNotRunning, RequestFailed, UsageError, not_installed
from mcpd_client.fast import write_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping
    from typing import Any

# Long enough for a second factor, and to look for one's telephone.
PATIENCE_SECONDS = 300.0
STDIN = 0
# A server that is never content would send the user to the browser for ever.
MAX_TRIES = 3


def sign_in(options: Namespace, name: str, **wishes: Any) -> dict[str, Any]:
    """Sign in to a server, and let the daemon know; return the row of `mcpd auth`.

    Args:
        options: the global ones.
        name: of the server.
        wishes: as `Door.login` takes them.

    Raises:
        ClientError: it did not work, or the server does not start with it.
    """
    # Whoever can answer can paste.
    terminal = STDIN if (os.isatty(STDIN) and os.isatty(2)) or wishes.get("no_browser") else None
    row: dict[str, Any] = _through(
        options, lambda door: door.login(name, terminal=terminal, verbose=bool(options.verbose), **wishes)
    )
    return row


def tell(options: Namespace, method: str, name: str, *, autostart: bool) -> None:
    """Let the daemon start or stop a server.

    Raises:
        ClientError: it does not.
    """
    forbidden = options.no_autostart
    options.no_autostart = forbidden or not autostart
    try:
        with open_client(options) as client:
            client.request_reply(method, {"server": name})
    except DaemonNotRunning:
        if not options.no_autostart:
            raise
    finally:
        options.no_autostart = forbidden


def wants_more(asked: object, row: Mapping[str, Any] | None) -> bool:
    """Whether a server wants a token to be good for more than the last sign-in has asked for; else the next is no better.

    Args:
        asked: the details of its error.
        row: of the last sign-in; None if there was none.
    """
    if not isinstance(asked, dict) or asked.get("error") != "insufficient_scope":
        return False
    scopes = asked.get("scopes")
    named = set(scopes) if isinstance(scopes, list) else set()
    return row is None or not named <= set(row["requested_scopes"])


def signed_in_line(row: Mapping[str, Any]) -> str:
    """Return the one line about a sign-in."""
    scopes = " ".join(row["scopes"]) or "none named"
    expires = (
        f"expires in {format_age(row['expires_in_seconds'])}"
        if "expires_in_seconds" in row
        else "does not say when it expires"
    )
    return clean_line(f"signed in to {row['server']} (issuer {row['issuer']}, scopes {scopes}, {expires})") + "\n"


def _login(options: Namespace) -> int:
    patience, options.timeout = options.timeout or PATIENCE_SECONDS, None
    asked: Any = None
    for left in range(MAX_TRIES - 1, -1, -1):
        row = sign_in(
            options, options.server, browser_cmd=options.browser_cmd, no_browser=options.no_browser,
            scope=options.scopes, patience_seconds=patience, asked=asked,
        )  # fmt: skip
        try:
            tell(options, "mcpd/start", options.server, autostart=True)
        except RequestFailed as error:
            # It can turn out only now what the server wants the token to be good for.
            asked = error.data
            if not left or not wants_more(asked, row):
                _say_signed_in(options, row)
                raise
        else:
            break
    _say_signed_in(options, row)
    return 0


def _say_signed_in(options: Namespace, row: Mapping[str, Any]) -> None:
    print_out(dump(row) if options.json else signed_in_line(row))


def _logout(options: Namespace) -> int:
    if (options.server is None) is not options.all:
        raise UsageError("logout takes a server, or --all", hint="mcpd logout --help")
    name = options.server
    rows: list[dict[str, Any]] = _through(
        options, lambda door: door.logout_all() if name is None else door.logout(name)
    )
    for row in rows:
        if row.get("problem"):
            print_note(clean_line(f"warning: the token was not revoked at {row['issuer']}: {row['problem']}"))
    for server in {row["server"] for row in rows if row["server"] is not None}:
        try:
            tell(options, "mcpd/stop", server, autostart=False)
        except RequestFailed as error:
            print_note(f"note: the daemon goes on with {server}: {clean_line(error.message)}")
    if options.json:
        print_out(dump({"signed_out": rows}))
        return 0
    for row in rows:
        print_out(clean_line(f"signed out of {row['server'] or row['resource']} (issuer {row['issuer']})") + "\n")
    if not rows and not options.quiet:
        print_note("nobody was signed in" + (f" to {name}" if name else ""))
    return 0


def _auth(options: Namespace) -> int:
    rows: list[dict[str, Any]] = _through(options, lambda door: door.rows(options.server))
    if options.json:
        print_out(dump({"credentials": rows}))
    elif rows:
        columns = terminal_columns(1)
        header = ("SERVER", "STATE", "EXPIRES", "CLIENT", "ISSUER", "SCOPES")
        print_out(
            table(header, [_cells(row) for row in rows], columns=columns, style=Style(1, no_color=options.no_color))
        )
    elif not options.quiet:
        print_note("no server takes a sign-in")
    missing = options.server is not None and any(row["state"] != "signed_in" for row in rows)
    return EXIT_SIGN_IN if missing else 0


def _cells(row: Mapping[str, Any]) -> list[str]:
    expires = format_age(row["expires_in_seconds"]) if "expires_in_seconds" in row else "-"
    if row.get("refreshable"):
        expires += ", refreshed"
    state = str(row["state"]).replace("_", " ")
    words = (row["server"] or row["resource"], state, expires, row.get("client", "-"), row.get("issuer", "-"))
    return [clean(str(word)) for word in (*words, " ".join(row.get("scopes", ())) or "-")]


def _through(options: Namespace, do: Callable[[Any], Any]) -> Any:
    """Do something with the sign-ins of this user, which are the daemon's own code, run here.

    Raises:
        ClientError: it did not work.
    """
    try:
        from mcpd.errors import McpdError
        from mcpd.signin.door import Door
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    project = os.path.abspath(options.project) if options.project else None
    try:
        return do(Door(options.config, project, lambda text: write_text(2, clean(text))))
    except McpdError as error:
        raise RequestFailed(error.to_error()) from None


def _configure_login(parser: ArgumentParser) -> None:
    parser.add_argument("server", metavar="NAME")
    parser.add_argument(
        "--no-browser", action="store_true", help="only print the page's address; paste the last page's back"
    )
    parser.add_argument(
        "--browser-cmd", metavar="CMD", help="what opens the page, instead of BROWSER; %%s is its address"
    )
    parser.add_argument("--scopes", metavar="'A B'", help="ask for these, instead of what the server wants")
    parser.epilog = f"{parser.epilog or ''}\n--timeout: how long to wait for you, default {PATIENCE_SECONDS:.0f} s"


def _configure_logout(parser: ArgumentParser) -> None:
    parser.add_argument("server", nargs="?", metavar="NAME")
    parser.add_argument(
        "--all", action="store_true", help="out of all servers, also those that are not configured any more"
    )


def _configure_auth(parser: ArgumentParser) -> None:
    parser.add_argument("server", nargs="?", metavar="NAME")


COMMANDS = {
    "login": Command(
        _login,
        examples=("login github", "login github --no-browser", "login github --scopes 'repo read:user'"),
        exits=(0, 2, 3, 4, 6, 8, 9, 130),
        configure=_configure_login,
    ),
    "logout": Command(
        _logout, examples=("logout github", "logout --all"), exits=(0, 2, 3, 9), configure=_configure_logout
    ),
    "auth": Command(
        _auth, examples=("auth", "auth github", "auth --json"), exits=(0, 2, 3, 9), configure=_configure_auth
    ),
}
