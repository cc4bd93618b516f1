"""`prompt` and `complete`: the messages of a prompt, and what its arguments can be."""

from __future__ import annotations

from mcpd_client.cli.asking import UNKNOWN_METHOD, Inquiry, ask, explain, lacks, note_cut, pairs
from mcpd_client.cli.content import describe, text_in
from mcpd_client.cli.fetch import byte_count
from mcpd_client.cli.options import Command
from mcpd_client.cli.render import Style, clean, clean_line, print_note, print_out, terminal_columns
from mcpd_client.cli.session import open_client
from mcpd_client.cli.tools import add_elicit
from mcpd_client.errors import RequestFailed, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence
    from typing import Any


def _prompt(options: Namespace) -> int:
    server, name, given = _named(options.server, options.name, options.arguments)
    params: dict[str, Any] = {"server": server, "name": name, "arguments": pairs(given)}
    if options.max_bytes is not None:
        params["max_bytes"] = byte_count("max_bytes", options.max_bytes)
    inquiry = Inquiry(options)
    with open_client(options, inquiry.capabilities) as client:
        try:
            reply = inquiry.ask(client, "mcpd/prompt", params)
        except RequestFailed as error:
            explain(client, error, "prompts", server, name, params["arguments"])
            raise
    if options.json:
        print_out(reply.result_text() + "\n")
        return inquiry.end()
    print_out(_messages(reply.result, Style(1, no_color=options.no_color)))
    note_cut(reply.result, options)
    return inquiry.end()


def _named(server: str, name: str | None, arguments: Sequence[str]) -> tuple[str, str, Sequence[str]]:
    """Return server, prompt and the rest of `SERVER NAME k=v…` or `SERVER.NAME k=v…`.

    Raises:
        UsageError: no prompt is named.
    """
    if name is not None and "=" not in name:
        return server, name, arguments
    before, dot, after = server.partition(".")
    if not dot or not after:
        raise UsageError("no prompt is named", hint=f"mcpd prompts {server}")
    return before, after, [*([] if name is None else [name]), *arguments]


def _messages(result: Mapping[str, Any], style: Style) -> str:
    """Return the messages, each below its role, with an empty line between them."""
    shown = []
    for message in result.get("messages", []):
        block = message.get("content")
        block = block if isinstance(block, dict) else {}
        text = text_in(block)
        text = clean_line(describe(block) or "") if text is None else text
        if terminal_columns(1) is not None:
            text = clean(text)
        end = "" if text.endswith("\n") else "\n"
        shown.append(f"{style.paint(clean_line(str(message.get('role'))), 'bold')}:\n{text}{end}")
    return "\n".join(shown)


def _complete(options: Namespace) -> int:
    ref = {"type": "ref/resource", "uri": options.name}
    if options.kind == "prompt":
        ref = {"type": "ref/prompt", "name": options.name}
    params: dict[str, Any] = {
        "server": options.server,
        "ref": ref,
        "argument": {"name": options.argument, "value": options.value},
    }
    if options.known:
        params["context"] = {"arguments": pairs(options.known)}
    with open_client(options) as client:
        try:
            reply = ask(client, "mcpd/complete", params, options, None)
        except RequestFailed as error:
            if not error.kind and error.code == UNKNOWN_METHOD:
                lacks(error, options.server, "completions")
            raise
    if options.json:
        print_out(reply.result_text() + "\n")
        return 0
    completion = reply.result.get("completion") or {}
    values = [clean_line(str(value)) for value in completion.get("values", [])]
    print_out("".join(f"{value}\n" for value in values))
    total = completion.get("total")
    if not options.quiet and (completion.get("hasMore") or (isinstance(total, int) and total > len(values))):
        print_note(f"shown {len(values)}{f' of {total}' if isinstance(total, int) else ''}; there are more")
    return 0


def _configure_prompt(parser: ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER")
    parser.add_argument("name", nargs="?", metavar="NAME", help="or SERVER.NAME in one word")
    parser.add_argument("arguments", nargs="*", default=[], metavar="k=v", help="text; k=@FILE is a file's, k=@- that of stdin")
    parser.add_argument("--max-bytes", metavar="N", help="how much text to print at most; default 32768")
    add_elicit(parser)


def _configure_complete(parser: ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER")
    parser.add_argument("kind", choices=("prompt", "template", "resource"), help="whose argument; both others mean a template's")
    parser.add_argument("name", metavar="NAME", help="of the prompt, or the template itself")
    parser.add_argument("argument", metavar="ARGUMENT", help="which one")
    parser.add_argument("value", nargs="?", default="", metavar="VALUE", help="how it begins")
    parser.add_argument("known", nargs="*", default=[], metavar="k=v", help="other arguments that are known already")


EXITS = (0, 2, 3, 4, 5, 6, 7, 8, 130)
COMMANDS = {
    "prompt": Command(
        _prompt,
        examples=("prompt github review", "prompt github review pr=12 style=short", "prompt github review pr=12 --json"),
        exits=EXITS,
        configure=_configure_prompt,
    ),
    "complete": Command(
        _complete,
        examples=("complete github prompt review style sh", "complete files template 'file:///{path}' path no"),
        exits=EXITS,
        configure=_configure_complete,
    ),
}
