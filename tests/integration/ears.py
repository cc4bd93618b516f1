"""What a client of a crowd listens to: lists, resources and logs; whatever else it hears is not its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.integration.caller import Caller

Json = dict[str, Any]

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Ears:
    """The interests of one client.

    Attributes:
        due: notifications that must still come, with the client whose call causes them.
        subscribed: the state of each (server, uri): asked, on or left.
        listed: the servers whose list of tools it has asked for: asked, or yes.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.due: dict[tuple[str, str, str], Caller] = {}
        self.subscribed: dict[tuple[str, str], str] = {}
        self.listed: dict[str, str] = {}
        self._levels: dict[str, list[str]] = {}
        self._revisions: dict[str, int] = {}

    def hear(self, method: str, params: Json) -> None:
        """Judge a notification."""
        server = params["_meta"]["mcpd/server"]
        match method:
            case "notifications/tools/list_changed":
                self._changed(server, params["_meta"]["mcpd/revision"])
            case "notifications/resources/updated":
                uri = params["uri"]
                assert (server, uri) in self.subscribed, f"{self._caller.name} has not subscribed to {uri} of {server}"
                self.due.pop(("updated", server, uri), None)
            case "notifications/message":
                self._logged(server, params)
            case _:
                raise AssertionError(f"{self._caller.name} did not want {method} {params}")

    # -- lists -----------------------------------------------------------------------------------

    def list(self, server: str, kind: str, offset: int, limit: int) -> None:
        """Ask for a page of a list."""
        known = {"tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate"}[kind]

        def check(answer: Json) -> None:
            page = answer["result"]
            assert len(page["items"]) == max(0, min(limit, page["total"] - offset)), answer
            assert all(item["server"] == server and known in item for item in page["items"]), answer
            if kind == "tools":
                self.listed[server] = "yes"

        if kind == "tools":
            self.listed.setdefault(server, "asked")
        self._caller.ask(f"mcpd/{kind}", {"server": server, "offset": offset, "limit": limit}, check)

    def _changed(self, server: str, revision: int) -> None:
        assert server in self.listed, f"{self._caller.name} has not asked for the tools of {server}"
        assert revision > self._revisions.get(server, -1), f"{self._caller.name} was told twice of {server} {revision}"
        self._revisions[server] = revision
        self.due.pop(("changed", server, "tools"), None)

    # -- resources -------------------------------------------------------------------------------

    def subscribe(self, server: str, uri: str) -> None:
        """Subscribe to what others subscribe to as well."""

        def check(answer: Json) -> None:
            assert answer.get("result") == {}, answer
            if self.subscribed.get((server, uri)) == "asked":
                self.subscribed[server, uri] = "on"

        self.subscribed[server, uri] = "asked"
        self._caller.ask("mcpd/subscribe", {"server": server, "uri": uri}, check)

    def unsubscribe(self, server: str, uri: str) -> None:
        """End one's subscription, and nobody else's."""

        def check(answer: Json) -> None:
            assert answer.get("result") == {}, answer
            if self.subscribed.get((server, uri)) == "left":
                del self.subscribed[server, uri]

        if self.subscribed.get((server, uri)) == "on":
            self.subscribed[server, uri] = "left"
            self.due.pop(("updated", server, uri), None)
            self._caller.ask("mcpd/unsubscribe", {"server": server, "uri": uri}, check)

    # -- logs ------------------------------------------------------------------------------------

    def log_level(self, server: str, level: str) -> None:
        """Ask for messages of a level and above; until that is answered, the level before may hold."""

        def check(answer: Json) -> None:
            assert answer.get("result") == {}, answer
            self._levels[server] = self._levels[server][1:] or [level]

        # What is logged and not yet heard may come under the new level.
        self.due = {due: caller for due, caller in self.due.items() if due[:2] != ("logged", server)}
        before = self._levels.get(server, ["none"])
        self._levels[server] = [*before, level]
        self._caller.ask("mcpd/log_level", {"server": server, "level": level}, check)

    def log(self, server: str, level: str) -> None:
        """Have something logged; on a legacy server it must be heard by whoever wants that level."""
        mark = self._caller.call(server, "log", lambda mark: {"level": level, "text": mark}, str, for_others=True)
        levels = self._levels.get(server, ["none"])
        if server != "modern" and len(levels) == 1 and _covers(levels[0], level):
            self.due["logged", server, mark] = self._caller

    def _logged(self, server: str, params: Json) -> None:
        levels = self._levels.get(server, ["none"])
        assert any(_covers(least, params["level"]) for least in levels), f"{self._caller.name} wants {levels}: {params}"
        self.due.pop(("logged", server, params["data"]), None)


def _covers(least: str, level: str) -> bool:
    return least != "none" and LEVELS.index(level) >= LEVELS.index(least)
