"""`mcpd config check | show | path`: what the command line prints about a configuration.

Nothing is expanded here, and literal values of `env` and `headers`, and secrets of `oauth`, are never printed.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, structs

from mcpd.config import literal
from mcpd.config.model import bare_url
from mcpd.config.redact import Redactor
from mcpd.config.rules import quoted, spelled
from mcpd.config.schema import suggestion
from mcpd.errors import McpdError, Misconfigured, UnknownServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpd.config.model import Config, OAuth, Problem, Server

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_:]*)(:-[^}]*)?\}")
# A scheme in front of a reference tells nothing.
_REFERENCES = re.compile(rf"((?:Bearer|Basic|Token) )?(?:{_REFERENCE.pattern})+", re.IGNORECASE)
EXIT_USAGE, EXIT_CONFIGURATION = 2, 9


class Output(NamedTuple):
    """What a command leaves behind."""

    exit: int
    stdout: str
    stderr: str = ""


def path(config: Config, *, as_json: bool = False) -> Output:
    """Say where the file is, or would be."""
    if as_json:
        return Output(0, _line({"path": config.path, "exists": config.file is not None}))
    return Output(0, f"{config.path}\n")


def check(config: Config, *, as_json: bool = False) -> Output:
    """Say everything that is wrong; exit 9 unless all of it is warnings."""
    problems = [*config.problems, *literal.warnings(config)]
    errors = [problem for problem in problems if not problem.warning]
    if as_json and errors:
        return Output(EXIT_CONFIGURATION, "", _line({"error": _failure(config, errors)}))
    if as_json:
        answer = {"file": config.file, "servers": list(config.servers), "problems": [_plain(each) for each in problems]}
        return Output(0, _line(answer))
    said = "".join(f"{'warning' if problem.warning else 'error'}: {problem}\n" for problem in problems)
    if errors:
        return Output(EXIT_CONFIGURATION, "", said)
    where = config.file or f"no file at {config.path}, the demo server only"
    count = len(config.servers)
    return Output(0, f"{where}: {count} server{'' if count == 1 else 's'}, no errors\n", said)


def show(config: Config, name: str | None = None, *, as_json: bool = False) -> Output:
    """Print one server, or all of the file, with the defaults filled in."""
    if name is not None and name not in config.servers:
        return _no_server(config, name, as_json=as_json)
    servers = config.servers if name is None else {name: config.servers[name]}
    shown = {each: _visible(server) for each, server in servers.items()}
    if as_json and name is not None:
        return Output(0, _line(shown[name]))
    errors = [problem for problem in config.problems if not problem.warning] if name is None else []
    said, status = "".join(f"error: {problem}\n" for problem in errors), EXIT_CONFIGURATION if errors else 0
    daemon = structs.asdict(config.daemon)
    if as_json:
        wrong = _line({"error": _failure(config, errors)}) if errors else ""
        return Output(status, _line({"file": config.file, "daemon": daemon, "servers": shown}), wrong)
    blocks = [_block("daemon", daemon)] if name is None else []
    blocks += [_block(f"servers.{quoted(each)}", values) for each, values in shown.items()]
    return Output(status, "\n".join(blocks), said)


def _no_server(config: Config, name: str, *, as_json: bool) -> Output:
    error: McpdError
    if name in config.wrong:
        error, status = config.wrong[name].error(), EXIT_CONFIGURATION
    elif config.unusable:
        error, status = config.problems[0].error(), EXIT_CONFIGURATION
    else:
        hint = suggestion(name, {each: each for each in config.servers}) if config.servers else None
        error, status = UnknownServer(f"no server {name!r} is configured", server=name, hint=hint), EXIT_USAGE
    if as_json:
        return Output(status, "", _line({"error": _flat(error)}))
    return Output(status, "", f"error: {error.message}\n" + (f"  {error.hint}\n" if error.hint else ""))


def _failure(config: Config, errors: list[Problem]) -> dict[str, Any]:
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    first = errors[0]
    error = Misconfigured(first.sentence + more, server=first.server, hint=first.hint)
    return _flat(error) | {"data": {"problems": [_plain(problem) for problem in config.problems]}}


def _flat(error: McpdError) -> dict[str, Any]:
    """Return an error as the command line prints it with --json."""
    answer = {"code": error.code, "class": error.kind, "message": error.message, "server": error.server}
    return answer | {"hint": error.hint, "data": error.details}


def _plain(problem: Problem) -> dict[str, Any]:
    return structs.asdict(problem)


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _visible(server: Server) -> dict[str, Any]:
    """Return the keys of a server as one may print them; without a value, or beside the other kind of server, they are left out."""
    plain, idle = Redactor().text, _OF_REMOTES if server.url is None else _OF_PROGRAMS
    values: dict[str, Any] = {}
    for key, value in structs.asdict(server).items():
        match key, value:
            case ("name" | "shown_as", _) | (_, None) | ("headers_helper", ()):
                continue
            case _ if key in idle:
                continue
            case (("env" | "headers"), table):
                values[key] = {name: _reference_only(text) for name, text in table.items()}
            case "url", _:
                values[key] = server.target
            case "oauth", oauth:
                values[key] = _visible_oauth(oauth)
            case _, Struct():
                values[key] = structs.asdict(value)
            case _, tuple():
                values[key] = [plain(item) for item in value]
            case _:
                values[key] = value
    return values


_OF_REMOTES = {"headers", "bearer_env", "headers_helper", "oauth", "allow_legacy_sse", "insecure"}
_OF_PROGRAMS = {"args", "env", "framing"}


def _visible_oauth(oauth: OAuth) -> dict[str, Any]:
    values = {key: value for key, value in structs.asdict(oauth).items() if value not in (None, ())}
    shown: dict[str, Callable[[str], str]] = dict.fromkeys(("client_secret", "private_key"), _reference_only)
    shown |= dict.fromkeys(("client_metadata_url", "issuer"), bare_url)
    return {key: shown[key](value) if key in shown else value for key, value in values.items()}


def _reference_only(text: str) -> str:
    """Return a value that only names variables; their defaults may be secrets themselves."""
    if not _REFERENCES.fullmatch(text):
        return "***"
    return _REFERENCE.sub(lambda found: f"${{{found[1]}:-***}}" if found[2] else found[0], text)


def _block(heading: str, values: dict[str, Any]) -> str:
    return "".join((f"[{heading}]\n", *(f"{quoted(key)} = {_toml(value)}\n" for key, value in values.items())))


def _toml(value: object) -> str:
    match value:
        case bool() | str():
            return spelled(value)
        case dict():
            inside = ", ".join(f"{quoted(key)} = {_toml(item)}" for key, item in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case list() | tuple():
            return f"[{', '.join(_toml(item) for item in value)}]"
        case _:
            return f"{value:g}" if isinstance(value, float) and value.is_integer() and value < 1e15 else str(value)
