"""`resources`, `templates`, `prompts`: what servers offer besides tools.

Names, URIs and descriptions come from servers. They are shown in lines of our own making, so they are
cleaned even where the output is no terminal.
"""

from __future__ import annotations

import json

from mcpd_client.cli.options import Command
from mcpd_client.cli.render import (
    Style,
    brief,
    clean_line,
    dump,
    format_bytes,
    print_note,
    print_out,
    table,
    terminal_columns,
)
from mcpd_client.cli.session import open_client
from mcpd_client.sync import PAGE_ITEMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcpd_client.sync import Client

# How much of what a server says about itself or its items fits into one line.
LINE_CHARACTERS = 1000
MAX_NOTES = 10


class Kind:
    """One kind of item: the member that tells items apart, the title of its column, and what else to show."""

    __slots__ = ("column", "fact", "key", "noun", "title")

    def __init__(self, noun: str, key: str, title: str, column: str, fact: Callable[[Mapping[str, Any]], str]) -> None:
        self.noun = noun
        self.key = key
        self.title = title
        self.column = column
        self.fact = fact


def _type(item: Mapping[str, Any]) -> str:
    return _said(item, "mimeType") or "-"


def _signature(prompt: Mapping[str, Any]) -> str:
    """Return the names of a prompt's arguments; those that may be left out in brackets."""
    names = [_said(each, "name") if each.get("required") is True else f"[{_said(each, 'name')}]" for each in arguments_of(prompt)]
    return " ".join(names) or "-"


KINDS = {
    "resources": Kind("resource", "uri", "URI", "TYPE", _type),
    "templates": Kind("template", "uriTemplate", "TEMPLATE", "TYPE", _type),
    "prompts": Kind("prompt", "name", "PROMPT", "ARGUMENTS", _signature),
}


def arguments_of(prompt: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the arguments that a prompt declares; what is none is left out."""
    declared = prompt.get("arguments")
    return [each for each in declared if isinstance(each, dict)] if isinstance(declared, list) else []


def all_items(client: Client, kind: str, server: str) -> list[Mapping[str, Any]]:
    """Return all items of one server's list that can be had."""
    items: list[Mapping[str, Any]] = _pages(client, kind, {"server": server}, every=True)["items"]
    return items


def _run(options: Namespace, kind: str) -> int:
    if options.name is not None:
        return _show_one(options, kind)
    params = {} if options.server is None else {"server": options.server}
    with open_client(options) as client:
        if options.json and not options.all:
            print_out(client.request_reply(f"mcpd/{kind}", {**params, "limit": PAGE_ITEMS}).result_text() + "\n")
            return 0
        found = _pages(client, kind, params, every=options.all)
    if options.json:
        print_out(dump(found))
        return 0
    style, columns = Style(1, no_color=options.no_color), terminal_columns(1)
    rows = [_row(item, KINDS[kind]) for item in found["items"]]
    if rows:
        header = ("SERVER", KINDS[kind].title, KINDS[kind].column, "DESCRIPTION")
        print_out(table(header, rows, columns=columns, style=style))
    if not options.quiet:
        for note in _notes(found, kind, options.server):
            print_note(note)
    return 0


def _pages(client: Client, kind: str, params: Mapping[str, Any], *, every: bool) -> dict[str, Any]:
    """Return the first page of a list, or all its pages as one."""
    found: dict[str, Any] = client.request(f"mcpd/{kind}", {**params, "limit": PAGE_ITEMS})
    while every and (offset := found.get("nextOffset")) is not None:
        page = client.request(f"mcpd/{kind}", {**params, "limit": PAGE_ITEMS, "offset": offset})
        found = {**page, "items": [*found["items"], *page["items"]]}
        found["shown"] = len(found["items"])
    return found


def _row(item: Mapping[str, Any], kind: Kind) -> list[str]:
    # A name is what a resource is called; that it has none besides its URI is nothing to say twice.
    names = ["description", "title"] + ([] if kind.key == "name" else ["name"])
    said = next((text for name in names if (text := _said(item, name))), "")
    return [_said(item, "server"), _said(item, kind.key, None), kind.fact(item), said]


def _said(item: Mapping[str, Any], name: str, limit: int | None = LINE_CHARACTERS) -> str:
    """Return a member that a server chose, in one line; empty if it is no text."""
    value = item.get(name)
    return clean_line(value)[:limit] if isinstance(value, str) else ""


def _notes(found: Mapping[str, Any], kind: str, server: str | None) -> list[str]:
    notes = [f"error: {brief(_said(problem, 'message', None))}" for problem in found.get("problems", [])]
    for key, what in (("incomplete", "the list is not complete"), ("set_aside", "left out")):
        notes += [f"{what}: {clean_line(str(text))[:LINE_CHARACTERS]}" for text in found.get(key, [])[:MAX_NOTES]]
    for name in map(clean_line, map(str, found.get("stale_servers", [])[:MAX_NOTES])):
        notes.append(f"the list of {name!r} is an earlier one; for a newer one: mcpd start {name}")
    shown, total = len(found["items"]), found.get("total", 0)
    if shown < total:
        words = " ".join(["mcpd", kind, *([clean_line(server)] if server else []), "--all"])
        more = f"; all of them: {words}" if found.get("nextOffset") is not None else "; name a server to see the others"
        notes.append(f"shown {shown} of {total} {kind}{more}")
    return notes or ([] if total else [f"no {kind}"])


# -- one item ----------------------------------------------------------------------------------------


def _show_one(options: Namespace, kind: str) -> int:
    with open_client(options) as client:
        reply = client.request_reply(f"mcpd/{kind}", {"server": options.server, "name": options.name})
    (item,) = reply.result["items"]
    if options.json:
        print_out(_first_item(reply.result_text()) + "\n")
        return 0
    print_out(_prompt_page(options.server, item) if kind == "prompts" else _resource_page(item, KINDS[kind]))
    return 0


def _first_item(page: str) -> str:
    """Return the first item of a page of a list, as the server wrote it."""
    start = page.index("[", page.index('"items"')) + 1
    _, end = json.JSONDecoder().raw_decode(page, start)
    return page[start:end]


def _resource_page(item: Mapping[str, Any], kind: Kind) -> str:
    facts = {
        "name": _said(item, "name"),
        "title": _said(item, "title"),
        "type": _said(item, "mimeType"),
        "size": format_bytes(size) if isinstance(size := item.get("size"), int | float) else "",
        "description": _said(item, "description", None),
    }
    lines = [_said(item, kind.key, None), *(f"  {name}: {text}" for name, text in facts.items() if text)]
    return "".join(f"{line}\n" for line in lines)


def _prompt_page(server: str, item: Mapping[str, Any]) -> str:
    from shlex import quote

    name, declared = _said(item, "name", None), arguments_of(item)
    head = f"{clean_line(server)}.{name}"
    blocks = [[head, *([title] if (title := _said(item, "title")) else [])]]
    if said := _said(item, "description", None):
        blocks.append([f"  {said}"])
    if declared:
        blocks.append(["arguments:", *map(_argument_line, declared)])
    needed = [f"{quote(_said(each, 'name'))}=…" for each in declared if each.get("required") is True]
    blocks.append(["example:", f"  mcpd prompt {' '.join([quote(clean_line(server)), quote(name), *needed])}"])
    return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"


def _argument_line(argument: Mapping[str, Any]) -> str:
    mark = "" if argument.get("required") is True else " (may be left out)"
    said = _said(argument, "description") or _said(argument, "title")
    return f"  {_said(argument, 'name')}{mark}{f': {said}' if said else ''}"


def _resources(options: Namespace) -> int:
    return _run(options, "templates" if options.templates else "resources")


def _templates(options: Namespace) -> int:
    return _run(options, "templates")


def _prompts(options: Namespace) -> int:
    return _run(options, "prompts")


def _configure(parser: ArgumentParser, what: str) -> None:
    parser.add_argument("server", nargs="?", metavar="SERVER", help="of which server; default: of all")
    parser.add_argument("name", nargs="?", metavar=what, help="only this one, with all there is to say about it")
    parser.add_argument("--all", action="store_true", help="all of them instead of the first hundred")


def _configure_resources(parser: ArgumentParser) -> None:
    _configure(parser, "URI")
    parser.add_argument("--templates", action="store_true", help="the same as mcpd templates")


def _configure_templates(parser: ArgumentParser) -> None:
    _configure(parser, "TEMPLATE")


def _configure_prompts(parser: ArgumentParser) -> None:
    _configure(parser, "NAME")


EXITS = (0, 2, 4, 5, 6)
COMMANDS = {
    "resources": Command(
        _resources,
        examples=("resources", "resources files --all", "resources files --json", "resources files file:///notes/todo.md"),
        exits=EXITS,
        configure=_configure_resources,
    ),
    "templates": Command(
        _templates, examples=("templates", "templates files"), exits=EXITS, configure=_configure_templates
    ),
    "prompts": Command(
        _prompts,
        examples=("prompts", "prompts github", "prompts github review", "prompts github --json"),
        exits=EXITS,
        configure=_configure_prompts,
    ),
}
