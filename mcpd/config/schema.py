"""Which keys there are, and how a table of the file is read by them: all that is right, all that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mcpd.config import rules
from mcpd.config.model import Limits, OAuth, Stop, Timeout, Tools
from mcpd.config.rules import Rule, Wrong, found, quoted

Report = Callable[[str, str, str | None], None]


class Table(NamedTuple):
    """The rules of a table inside an entry, the value that it becomes, and an example to show."""

    build: Callable[..., object]
    rules: Mapping[str, Rule]
    example: str


def read_table(
    table: Mapping[str, object], keys: Mapping[str, Rule | Table], path: str, report: Report
) -> dict[str, Any]:
    """Return the values of all keys that are right; call `report(key path, message, hint)` for the others."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        where, rule = f"{path}.{quoted(key)}", keys.get(key)
        try:
            if rule is None:
                raise Wrong("unknown key", suggestion(key, _names(keys)))
            if not isinstance(rule, Table):
                values[key] = rule(value)
            elif isinstance(value, dict):
                values[key] = rule.build(**read_table(value, rule.rules, where, report))
            else:
                raise Wrong(f"expected a table, found {found(value, show=True)}", f"for example {key} = {rule.example}")
        except Wrong as wrong:
            report(where + wrong.at, wrong.message, wrong.hint)
    return values


# Words of other hosts for our keys, too far from them for a search by spelling.
FOREIGN = {
    "cmd": "command", "arguments": "args", "environment": "env", "serverUrl": "url", "http_headers": "headers",
    "working_directory": "cwd", "env_vars": "env_pass", "mcpServers": "servers", "mcp_servers": "servers", "mcp": "servers",
}  # fmt: skip


def suggestion(key: str, known: Mapping[str, str]) -> str:
    """Return a hint that names the nearest of the known keys; the mapping gives each the text to show."""
    import difflib

    near = FOREIGN.get(key)
    if near not in known:
        near = next(iter(difflib.get_close_matches(key, known, n=1, cutoff=0.6)), None)
    if near:
        return f"did you mean {known[near]}?"
    return "known are " + ", ".join(name for name, shown in known.items() if name == shown)


def _names(keys: Mapping[str, Rule | Table]) -> dict[str, str]:
    """Return the keys of a table, and those of the tables in it by their whole path."""
    inner = {name: f"{key}.{name}" for key, rule in keys.items() if isinstance(rule, Table) for name in rule.rules}
    return inner | {key: key for key in keys}


def timeout(**given: float) -> Timeout:
    """Return the timeouts; a long call lifts the cap that was not given."""
    most = given.setdefault("max_seconds", max(Timeout().max_seconds, given.get("call_seconds", 0)))
    if given.get("call_seconds", 0) > most:
        raise Wrong(f"call_seconds is {given['call_seconds']:g}, over max_seconds = {most:g}", "raise max_seconds")
    return Timeout(**given)


APPROVALS = ("auto", "writes", "prompt", "never")
SERVER: Mapping[str, Rule | Table] = {
    "command": rules.command,
    "args": rules.texts,
    "url": rules.url,
    "env": rules.text_map(r"[^=\0]+", "the name of a variable"),
    "env_pass": rules.exact_names,
    "cwd": rules.folder,
    "headers": rules.text_map(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", "the name of a header"),
    "bearer_env": rules.variable,
    "headers_helper": rules.words,
    "oauth": Table(
        OAuth,
        {
            "client_id": rules.text,
            "client_secret": rules.text,
            "client_metadata_url": rules.url,
            "issuer": rules.url,
            "scopes": rules.texts,
            "grant": rules.choice("authorization_code", "client_credentials"),
            "auth_method": rules.choice("auto", "none", "client_secret_basic", "client_secret_post", "private_key_jwt"),
            "private_key": rules.text,
            "redirect_port": rules.port,
        },
        '{ client_id = "…" }',
    ),
    "enabled": rules.flag,
    "disabled": rules.flag,
    "scope": rules.choice("auto", "user", "project", "client"),
    "protocol": rules.protocol,
    "framing": rules.choice("auto", "newline", "content-length"),
    "timeout": Table(
        timeout,
        {
            "start_seconds": rules.seconds(zero=False),
            "call_seconds": rules.seconds(zero=False),
            "max_seconds": rules.seconds(zero=False),
            "idle_seconds": rules.seconds(zero=True),
        },
        "{ call_seconds = 60 }",
    ),
    "stop": Table(
        Stop,
        dict.fromkeys(("drain_seconds", "eof_seconds", "term_seconds"), rules.seconds(zero=True)),
        "{ term_seconds = 2 }",
    ),
    "tools": Table(Tools, {"allow": rules.texts, "deny": rules.texts}, '{ deny = ["delete_*"] }'),
    "prewarm": rules.flag,
    "retry": rules.choice("safe", "transport", "never"),
    "limits": Table(Limits, dict.fromkeys(Limits.__struct_fields__, rules.count), "{ in_flight = 8 }"),
    "on_timeout": rules.choice("probe", "retire", "keep"),
    "on_rpc_error": rules.choice("keep", "retire"),
    "allow_legacy_sse": rules.flag,
    "insecure": rules.flag,
    "interactive": rules.texts,
    "approve": rules.choice(*APPROVALS),
    "trust_annotations": rules.flag,
}
DAEMON: Mapping[str, Rule | Table] = {
    "drain_seconds": rules.seconds(zero=True),
    "idle_exit_seconds": rules.seconds(zero=True),
    "fast_start_ms": rules.milliseconds,
    "approval_seconds": rules.seconds(zero=False),
}
