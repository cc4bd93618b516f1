"""`bridge`: be the MCP server of a host."""

from __future__ import annotations

from mcpd_client.bridge.options import CHOICES, VALUES, BridgeOptions, problem
from mcpd_client.cli.options import Command
from mcpd_client.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

DESCRIPTION = """\
Be an MCP server on stdin and stdout, for a host that starts its servers itself.
With one NAME it is that server as it is; with several, or none for all, their
tools under the names SERVER-TOOL. The NAME mcpd is the daemon itself.

  claude mcp add github -- mcpd bridge github
  codex mcp add github -- mcpd bridge github
  {"mcpServers": {"github": {"command": "mcpd", "args": ["bridge", "github"]}}}
"""


def _configure(parser: ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("servers", nargs="*", metavar="NAME", help="a server; default: all that are enabled")
    parser.add_argument(
        "--mode", choices=CHOICES["--mode"], help="every tool, or three to search and call them; auto: by their number"
    )
    parser.add_argument("--separator", metavar="S", help="what stands between server and tool; default: -")
    parser.add_argument("--names", choices=CHOICES["--names"], help="mcp: mcp__SERVER__TOOL, as some agents expect")
    parser.add_argument("--description-bytes", metavar="N", help="cut longer descriptions, for a host with little room")
    parser.add_argument("--schema-bytes", metavar="N", help="take the texts out of longer schemas")


def _bridge(options: Namespace) -> int:
    from mcpd_client.bridge.pump import run

    given = {name: value for name in VALUES if (value := getattr(options, name[2:].replace("-", "_"))) is not None}
    bridge = BridgeOptions(options.servers, given, autostart=not options.no_autostart, quiet=options.quiet)
    if (mistake := problem(bridge)) is not None:
        raise UsageError(mistake, hint="mcpd bridge --help")
    return run(bridge)


COMMANDS = {
    "bridge": Command(
        _bridge,
        examples=(
            "bridge github",
            "bridge github jira --separator __",
            "bridge --mode search",
            "bridge mcpd",
        ),
        exits=(0, 2, 130),
        configure=_configure,
    ),
}
