"""`rpc`, `demo`, `demo-server`, `version`, `help`."""

from __future__ import annotations

import json

from mcpd_client import __version__
from mcpd_client.cli.main import COMMANDS as TABLE
from mcpd_client.cli.main import GROUPS, load
from mcpd_client.cli.options import GLOBAL_HELP, Command, make_parser
from mcpd_client.cli.render import dump, print_note, print_out
from mcpd_client.cli.session import open_client
from mcpd_client.connection import RawJSON
from mcpd_client.errors import ClientError, UsageError, not_installed
from mcpd_client.sync import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

DEMO = """\
# The demo server is there if nothing is configured. Try:
mcpd call demo echo text=hi
mcpd call demo add a=1 b=2 --json
mcpd tools demo
mcpd call demo slow seconds=2
mcpd status demo
"""
# A daemon that is stuck must not keep anybody from learning the client's version.
HELLO_SECONDS = 2.0


def overview() -> str:
    """Return the list of commands."""
    lines = ["mcpd: one daemon that owns your MCP servers and shares them", "", "usage: mcpd COMMAND [ARGUMENT…]"]
    for group, names in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name:<12} {TABLE[name][1]}" for name in names)]
    return "\n".join([*lines, "", f"{GLOBAL_HELP}\nNew here? mcpd demo\n"])


def _configure_rpc(parser: ArgumentParser) -> None:
    parser.add_argument("method", metavar="METHOD", help="as mcpd/status; mcpd/servers, mcpd/call …: see the README")
    parser.add_argument("params", nargs="?", metavar="JSON", help="its parameters; @FILE or - for stdin")


def _rpc(options: Namespace) -> int:
    params = _params(options.params)
    with open_client(options) as client:
        reply = client.request_reply(
            options.method,
            params,
            on_notification=lambda method, body: print_note(dump({"method": method, "params": body}).rstrip()),
        )
    print_out(reply.result_text() + "\n")
    return 0


def _params(text: str | None) -> RawJSON | None:
    """Check that `text` is JSON, and pass it on as it is: numbers of any size stay what they are."""
    if text is None:
        return None
    if text == "-" or text.startswith("@"):
        from mcpd_client.cli.tools import read_files

        (text,) = read_files(["--args", text]).values()
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the parameters are not JSON: {error}") from None
    if not isinstance(value, dict | list):
        raise UsageError("the parameters must be an object or an array")
    return RawJSON(text)


def _demo(options: Namespace) -> int:
    print_out(DEMO)
    return 0


def _demo_server(options: Namespace) -> int:
    try:
        from mcpd.demo import main
    except ModuleNotFoundError as error:
        raise not_installed(error, "demo server") from None
    status: int = main([])
    return status


def _version(options: Namespace) -> int:
    daemon = _running_daemon(options)
    if options.json:
        print_out(dump({"version": __version__, "daemon": daemon}))
        return 0
    print_out(f"mcpd {__version__}\n")
    if daemon is not None:
        print_out(f"daemon {daemon.get('version')} (pid {daemon.get('pid')})\n")
    return 0


def _running_daemon(options: Namespace) -> dict[str, object] | None:
    client = Client(options.socket or None, autostart=False, timeout=HELLO_SECONDS)
    try:
        with client:
            daemon: dict[str, object] = client.hello()["daemon"]
            return daemon
    except ClientError:
        return None


def _configure_help(parser: ArgumentParser) -> None:
    parser.add_argument("command", nargs="?", metavar="COMMAND")


def _help(options: Namespace) -> int:
    if options.command is None:
        print_out(overview())
        return 0
    command = load(options.command)
    print_out(make_parser(options.command, TABLE[options.command][1], command).format_help())
    return 0


COMMANDS = {
    "rpc": Command(
        _rpc,
        examples=("rpc mcpd/status", 'rpc mcpd/tools \'{"server": "demo"}\''),
        configure=_configure_rpc,
    ),
    "demo": Command(_demo, examples=("demo", "demo | sh"), exits=(0, 2)),
    "demo-server": Command(_demo_server, examples=("demo-server",), exits=(0, 2)),
    "version": Command(_version, examples=("version", "version --json"), exits=(0, 2)),
    "help": Command(_help, examples=("help", "help call"), exits=(0, 2), configure=_configure_help),
}
