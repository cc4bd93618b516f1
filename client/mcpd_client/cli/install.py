"""`install`, `uninstall`, `export`: entries of the bridge in the configuration of hosts."""

from __future__ import annotations

import contextlib
import os
import sys

from mcpd_client.cli.options import Command
from mcpd_client.cli.render import clean, clean_line, dump, print_note, print_out, render_error
from mcpd_client.cli.session import open_client, unknown_server
from mcpd_client.errors import ClientError, UsageError
from mcpd_client.fast import can_ask, write_text
from mcpd_client.hosts import known, toml
from mcpd_client.hosts.bridge import bridge_command, is_bridge, own_command
from mcpd_client.hosts.plan import Place, Plan, plan_install, plan_uninstall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mcpd_client.hosts.known import Host
    from mcpd_client.hosts.plan import Step

AGGREGATE = "mcpd"
MODES = ("direct", "search", "auto")
EXIT_REFUSED = 8
DONE = {"add": "added", "update": "updated", "replace": "replaced", "remove": "removed"}


class Refused(ClientError):
    """The user has said no."""

    code, kind, exit_code = 49, "refused", EXIT_REFUSED


def _install(options: Namespace) -> int:
    hosts = _hosts(options)
    wanted = _wanted(options)
    for host in hosts:
        for name in wanted:
            host.check_name(name)
    places = [_last_place(host, options) for host in hosts]
    plans = [plan_install(place, wanted, force=options.force) for place in places]
    for plan in plans:
        _note_doubles(plan, options)
    status = _carry_out(plans, options)
    refused = [step for plan in plans for step in plan.steps if step.action == "conflict"]
    return status or (EXIT_REFUSED if refused else 0)


def _uninstall(options: Namespace) -> int:
    places = [place for host in _hosts(options) for place in _places(host, options)]
    return _carry_out([plan_uninstall(place) for place in places], options)


def _export(options: Namespace) -> int:
    host = known.find(options.host)
    wanted = _wanted(options)
    for name in wanted:
        host.check_name(name)
    path = host.files(options.scope, _project(options), os.environ)[-1]
    entries = {name: host.entry(command) for name, command in wanted.items()}
    snippet = _snippet(host, entries)
    if options.json:
        print_out(dump({"host": host.name, "file": path, "snippet": snippet}))
        return 0
    if not options.quiet:
        print_note(f"# for {path}")
    print_out(snippet)
    return 0


def _snippet(host: Host, entries: Mapping[str, Mapping[str, Any]]) -> str:
    if host.is_toml:
        return "\n".join(toml.dump(host.keys[0], name, entry) for name, entry in entries.items())
    import json

    return json.dumps({host.keys[0]: entries}, ensure_ascii=False, indent=2) + "\n"


def _hosts(options: Namespace) -> list[Host]:
    return [known.find(name) for name in dict.fromkeys(options.hosts)]


def _project(options: Namespace) -> str:
    return os.path.abspath(options.project or ".")


def _places(host: Host, options: Namespace) -> list[Place]:
    project = _project(options)
    paths = host.files(options.scope, project, os.environ)
    return [Place(host, options.scope, path, project) for path in paths]


def _last_place(host: Host, options: Namespace) -> Place:
    return _places(host, options)[-1]


def _wanted(options: Namespace) -> dict[str, list[str]]:
    """Return the entries that are asked for: name to command.

    Raises:
        ClientError: they cannot be; or the daemon that knows the servers is not to be had.
    """
    servers: Sequence[str | None] = [None] if options.aggregate else _servers(options)
    if options.name is not None and len(servers) != 1:
        raise UsageError("--name is for one entry", hint="add --aggregate, or --server with one name")
    if options.mode is not None and not options.aggregate:
        raise UsageError("--mode is for all servers in one entry", hint="add --aggregate")
    own = own_command(sys.argv[0], os.environ, is_shared=options.scope == "project")
    socket = options.socket or os.environ.get("MCPD_SOCKET")
    config = options.config or os.environ.get("MCPD_CONFIG")
    return {
        options.name or server or AGGREGATE: bridge_command(
            own, server, mode=options.mode, socket=socket, config=config
        )
        for server in servers
    }


def _servers(options: Namespace) -> list[str]:
    """Return the names of the servers that are meant: those asked for, else all that are enabled."""
    asked = list(dict.fromkeys(options.server or []))
    if asked == [AGGREGATE]:
        return asked
    with open_client(options) as client:
        names = list(dict.fromkeys(str(row["name"]) for row in client.servers(every=bool(asked))))
    for name in asked:
        # The daemon is a server itself, which is in no list.
        if name not in names and name != AGGREGATE:
            raise unknown_server(name, names)
    if not asked and not names:
        raise UsageError("no servers are enabled", hint="mcpd config path")
    return asked or names


def _note_doubles(plan: Plan, options: Namespace) -> None:
    """Say what else starts the same servers in this host, which shows their tools twice."""
    if options.quiet:
        return
    place, names = plan.place, {step.name for step in plan.steps}
    title = place.host.title
    others = [name for name in place.bridges() if name not in names]
    if others and (options.aggregate or AGGREGATE in others):
        print_note(f"{title} also has our entries {', '.join(others)}: tools will be there twice")
    for path, entries in _elsewhere(place):
        for name in sorted(names & entries.keys()):
            if not is_bridge(place.host.command(entries[name])):
                print_note(f"{path} has an entry {clean_line(name)} of its own, too")


def _elsewhere(place: Place) -> list[tuple[str, dict[str, Any]]]:
    """Return what else a host reads in this project: where, and the entries there."""
    found = []
    if place.scope == "user":
        found.append((f"{place.path}, for {place.project} alone,", place.of_project()))
    for scope in known.SCOPES:
        # What cannot be read or is not there starts nothing.
        with contextlib.suppress(ClientError):
            if scope != place.scope:
                paths = place.host.files(scope, place.project, os.environ)
                found += [(path, Place(place.host, scope, path, place.project).entries) for path in paths]
    return found


def _carry_out(plans: Sequence[Plan], options: Namespace) -> int:
    """Show what will be done, ask, do it, and say what has been done; return the exit code.

    Raises:
        UsageError: there is nobody to ask.
        Refused: the user does not want it.
    """
    changing = [plan for plan in plans if plan.changes]
    asks = bool(changing) and not options.dry_run and not options.yes
    if not options.json:
        print_out("".join(_shown(plan) for plan in plans))
    elif asks:
        write_text(2, "".join(_shown(plan) for plan in plans))
    if asks:
        _ask()
    status, backups, failed = 0, {}, set()
    for plan in changing if not options.dry_run else ():
        try:
            backups[plan] = plan.apply()
        except ClientError as error:
            write_text(2, render_error(error, as_json=options.json))
            status = status or error.exit_code
            failed.add(plan)
        else:
            if not options.json and not options.quiet:
                print_note(_told(plan, backups[plan]))
    if options.json:
        rows = [_row(plan, backups.get(plan), done=plan in backups, failed=plan in failed) for plan in plans]
        print_out(dump({"dry_run": options.dry_run, "hosts": rows}))
    return status


def _ask() -> None:
    if not can_ask():
        raise UsageError("nobody can be asked: this is not a terminal", hint="add --yes, or --dry-run to only look")
    write_text(2, "Make these changes? [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Refused("nothing was changed")


def _shown(plan: Plan) -> str:
    place = plan.place
    lines = [f"{place.host.title}: {place.path}"]
    lines += [f"  {_line(step)}" for step in plan.steps if not step.is_change]
    if not plan.steps:
        lines.append("  none of our entries is there")
    if plan.diff and place.host.is_writer and place.scope == "user":
        lines.append(f"  {place.host.title} writes this file, too: leave it before you go on")
    return clean("".join(f"{line}\n" for line in lines) + plan.text())


def _line(step: Step) -> str:
    if step.action == "same":
        return f"{step.name} is already there"
    how = f"starts {os.path.basename(step.old[0])} itself" if step.old else "has an entry of its own"
    return f"{step.name}: the host {how} under this name, left as it is; --force replaces it"


def _told(plan: Plan, backup: str | None) -> str:
    words = ", ".join(f"{step.name} {DONE[step.action]}" for step in plan.changes)
    kept = f"; before: {backup}" if backup else ""
    return clean_line(f"{plan.place.host.title}: {words}{kept}")


def _row(plan: Plan, backup: str | None, *, done: bool, failed: bool) -> dict[str, Any]:
    place = plan.place
    return {
        "host": place.host.name,
        "scope": place.scope,
        "file": place.path,
        "entries": [{"name": step.name, "action": step.action, "command": step.command} for step in plan.steps],
        "commands": plan.commands,
        "diff": plan.diff,
        "changed": done,
        "failed": failed,
        "backup": backup,
    }


def _configure_servers(parser: ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--server", action="append", metavar="NAME", help="only this server; may be given again")
    which.add_argument("--aggregate", action="store_true", help="one entry for all servers")
    parser.add_argument("--mode", choices=MODES, help="with --aggregate: search shows three tools that find the others")
    parser.add_argument("--name", metavar="NAME", help="what the one entry is called")
    _configure_scope(parser)


def _configure_scope(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--scope", choices=known.SCOPES, default="user", help="whose file; project: that of --project DIR"
    )


def _configure_change(parser: ArgumentParser) -> None:
    names = [host.name for host in known.HOSTS]
    parser.add_argument(
        "hosts", nargs="+", metavar="HOST", help=f"{', '.join(names[:5])}, {', '.join(names[5:-1])} or {names[-1]}"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _configure_install(parser: ArgumentParser) -> None:
    _configure_change(parser)
    _configure_servers(parser)
    parser.add_argument("--force", action="store_true", help="replace an entry that starts the server itself")


def _configure_uninstall(parser: ArgumentParser) -> None:
    _configure_change(parser)
    _configure_scope(parser)


def _configure_export(parser: ArgumentParser) -> None:
    parser.add_argument("host", metavar="HOST", help="as for install")
    _configure_servers(parser)


COMMANDS = {
    "install": Command(
        _install,
        examples=(
            "install claude-code codex",
            "install cursor --server github --dry-run",
            "install vscode --aggregate --mode search --scope project --yes",
        ),
        exits=(0, 2, 6, 8, 9),
        configure=_configure_install,
    ),
    "uninstall": Command(
        _uninstall,
        examples=("uninstall claude-code", "uninstall cursor zed --dry-run"),
        exits=(0, 2, 8, 9),
        configure=_configure_uninstall,
    ),
    "export": Command(
        _export,
        examples=("export cursor", "export zed --server github", "export codex --aggregate"),
        exits=(0, 2, 6),
        configure=_configure_export,
    ),
}
