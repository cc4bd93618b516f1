"""The server `mcpd`: an agent looks after its servers, and nothing it does can fail without a word why."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest
import trio
from msgspec import Raw
from trio.testing import MockClock

from mcpd.broker.broker import Broker
from mcpd.broker.scopes import Seeker
from mcpd.config.load import parse
from mcpd.config.model import Problem, Stop, Timeout
from mcpd.downstream import own
from mcpd.downstream.own import Own
from mcpd.downstream.shown import Local
from mcpd.downstream.steering import Steering
from mcpd.downstream.tail import Tail
from mcpd.errors import UnknownTool
from mcpd.logs import Log
from tests.downstream.hall import Hall, Line
from tests.downstream.test_searching import offers, tool
from tests.upstream.fakes import LEGACY, NEVER_SECONDS, FakeServer, Script, after

REFUSES: Script = {"server/discover": -32601, "initialize": -32000}


class Agent:
    """A client of the server `mcpd`."""

    def __init__(self, hall: Hall) -> None:
        self.log = Log(stream=_Stream())  # type: ignore[arg-type]  # nothing is written before it is open
        self.source = Own(hall.broker, Tail(hall.broker, self.log), Steering(hall.broker))
        self.line: Any = Line()

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the result of a tool, which fits what the tool promises."""
        found = self.source.find("tools", name, self.line)
        assert isinstance(found, Local)
        result: dict[str, Any] = json.loads(msgspec.json.encode(await found.work(Raw(json.dumps(arguments).encode()))))
        schema = (await self.descriptors())[name].get("outputSchema")
        if "isError" not in result and schema is not None:
            assert_fits(result["structuredContent"], schema)
        else:
            assert "structuredContent" not in result
        return result

    async def text(self, name: str, **arguments: Any) -> str:
        """Return the text of a tool that succeeds."""
        result = await self.call(name, **arguments)
        assert "isError" not in result, result
        return text_of(result)

    async def failure(self, name: str, **arguments: Any) -> str:
        """Return the text of a tool that fails."""
        result = await self.call(name, **arguments)
        assert result["isError"] is True, result
        return text_of(result)

    async def read(self, uri: str) -> dict[str, Any]:
        """Return the one content of a resource."""
        found = self.source.find("resources", uri, self.line)
        assert isinstance(found, Local)
        (content,) = (await found.work(Raw(json.dumps(uri).encode())))["contents"]
        assert content["uri"] == uri
        return dict(content)

    async def descriptors(self, kind: str = "tools") -> dict[str, dict[str, Any]]:
        """Return a list, by name."""
        shown = await self.source.listing(kind, self.line)
        return {one["name"]: one for one in map(json.loads, map(bytes, shown.items))}


class _Stream(io.StringIO):
    def fileno(self) -> int:
        return 2


def text_of(result: dict[str, Any]) -> str:
    (content,) = result["content"]
    assert content["type"] == "text"
    return str(content["text"])


TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def assert_fits(value: Any, schema: dict[str, Any]) -> None:
    """Check a value against the part of JSON Schema that is used here."""
    assert isinstance(value, TYPES[schema["type"]]), (value, schema)
    if schema["type"] == "array":
        for one in value:
            assert_fits(one, schema["items"])
    if schema["type"] == "object":
        assert set(schema["required"]) <= set(value), (value, schema)
        for key, inner in schema["properties"].items():
            if key in value:
                assert_fits(value[key], inner)


def configure(hall: Hall, text: str) -> None:
    """Put another configuration in force, as if it had been so from the beginning."""
    hall.broker = Broker(parse(text, "config.toml", {"HOME": "/h"}), hall.around, hall.broker._store)


async def ready(hall: Hall, name: str) -> FakeServer:
    """Start a server and return it."""
    await hall.place(name).slot.ready()
    return hall.servers[-1]


# -- what it says of itself --------------------------------------------------------------------------


async def test_it_presents_itself_without_any_server(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    agent = Agent(Hall(nursery, {}))

    card = await agent.source.card(agent.line)

    assert json.loads(bytes(card.info))["name"] == "mcpd"
    assert set(card.capabilities) == {"tools", "resources"}
    assert card.instructions
    assert card.is_final


async def test_each_tool_says_what_it_takes_and_whether_it_changes_anything(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    agent = Agent(Hall(nursery, {}))

    found = await agent.descriptors()

    assert list(found) == ["list_servers", "server_status", "server_logs", "restart_server"]
    for one in found.values():
        assert one["title"]
        assert one["description"]
        for schema in (one["inputSchema"], one.get("outputSchema", {"type": "object"})):
            assert schema["type"] == "object"
            assert set(schema.get("required", ())) <= set(schema.get("properties", ()))
    hints = {name: (one["annotations"]["readOnlyHint"], one["annotations"].get("destructiveHint")) for name, one in found.items()}
    assert hints.pop("restart_server") == (False, True)
    assert set(hints.values()) == {(True, None)}


async def test_it_has_no_prompts(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    assert await Agent(Hall(nursery, {})).descriptors("prompts") == {}


async def test_each_listed_resource_can_be_read(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    agent = Agent(Hall(nursery, {"one": LEGACY}))

    listed = await agent.descriptors("resources")
    templates = await agent.descriptors("templates")

    assert [one["uri"] for one in listed.values()] == ["mcpd://servers"]
    assert [one["uriTemplate"] for one in templates.values()] == ["mcpd://servers/{name}", "mcpd://logs/{name}"]
    for one in (*listed.values(), *templates.values()):
        uri = one.get("uri") or one["uriTemplate"].replace("{name}", "one")
        assert (await agent.read(uri))["mimeType"] == one["mimeType"]


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        ("tools", "server_log", "did you mean server_logs"),
        ("tools", "zzz", "there are list_servers"),
        ("resources", "mcpd://nothing", "there are mcpd://servers"),
        ("resources", "mcpd://logs/", "there are mcpd://servers"),
        ("resources", "file:///etc/passwd", "there are mcpd://servers"),
        ("prompts", "list_servers", "there are none"),
        ("templates", "mcpd://logs/{name}", "there are none"),
    ],
)
async def test_what_there_is_not_is_refused_with_what_there_is(
    nursery: trio.Nursery, autojump_clock: MockClock, kind: str, name: str, hint: str
) -> None:
    agent = Agent(Hall(nursery, {}))

    assert agent.source.find(kind, name, agent.line) is None
    with pytest.raises(UnknownTool) as caught:
        await agent.source.look(kind, name, agent.line)

    assert name in caught.value.message
    assert hint in (caught.value.hint or "")


# -- list_servers ------------------------------------------------------------------------------------


async def test_the_list_names_each_server_with_its_state_and_why_it_does_not_run(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"good": offers(tool("a"), tool("b")), "bad": REFUSES, "idle": LEGACY})
    agent = Agent(hall)
    await ready(hall, "good")
    await hall.place("good").catalog.listing("tools")
    await agent.failure("restart_server", server="bad")

    result = await agent.call("list_servers")

    assert text_of(result).splitlines() == [
        "good: ready, 2 tools",
        "bad: failed - server 'bad' could not be started: it refused initialize: no (code -32000)",
        "idle: stopped",
    ]
    assert [(row["name"], row["state"]) for row in result["structuredContent"]["servers"]] == [
        ("good", "ready"), ("bad", "failed"), ("idle", "stopped"),
    ]  # fmt: skip


async def test_disabled_servers_are_listed_on_request(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {})
    configure(hall, '[servers.on]\ncommand = "x"\n[servers.off]\ncommand = "x"\nenabled = false\n')
    agent = Agent(hall)

    assert await agent.text("list_servers") == "on: stopped"
    assert "off: disabled - server 'off' is disabled" in await agent.text("list_servers", all=True)


async def test_no_command_line_and_no_secret_is_in_the_list(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {})
    configure(hall, '[servers.x]\ncommand = "x"\nargs = ["--key=hunter2"]\nenv = { KEY = "hunter3" }\n')
    agent = Agent(hall)

    told = str(await agent.call("list_servers")) + str(await agent.read("mcpd://servers"))

    assert "hunter" not in told
    assert "hunter3" not in str(await agent.call("server_status", server="x"))


async def test_without_servers_the_list_says_where_to_configure_one(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    result = await Agent(Hall(nursery, {})).call("list_servers")

    assert text_of(result) == "no server is configured; the file is config.toml"
    assert result["structuredContent"] == {"servers": []}


# -- server_status -----------------------------------------------------------------------------------


async def test_the_status_of_a_server_begins_with_the_copy_of_the_client(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": LEGACY}, scope="project")
    await hall.broker.resolve("one", Seeker("other", "/elsewhere")).slot.ready()
    agent = Agent(hall)

    result = await agent.call("server_status", server="one")

    status = result["structuredContent"]
    assert status["name"] == "one"
    assert [(row["state"], row["yours"], row.get("project")) for row in status["copies"]] == [
        ("stopped", True, None),
        ("ready", False, "/elsewhere"),
    ]
    assert text_of(result).startswith("name: one\nstate: stopped\n")
    assert "\nproject: /elsewhere\n" in text_of(result)
    read = json.loads((await agent.read("mcpd://servers/one"))["text"])
    for row in (*read["copies"], *status["copies"]):
        row.pop("since", None)  # of the wall clock, which goes on between the two
    assert read == status


async def test_the_status_of_a_server_that_cannot_be_used_says_why(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {})
    configure(hall, '[servers.off]\ncommand = "x"\nenabled = false\n[servers.wrong]\ncomand = "x"\n')
    agent = Agent(hall)

    for name, state in (("off", "disabled"), ("wrong", "misconfigured")):
        (row,) = (await agent.call("server_status", server=name))["structuredContent"]["copies"]
        assert row["state"] == state
        assert row["reason"]


# -- server_logs -------------------------------------------------------------------------------------


async def test_the_log_of_a_server_is_its_stderr_and_what_the_daemon_noted(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": LEGACY, "two": LEGACY})
    agent = Agent(hall)
    (await ready(hall, "one")).ring.append(b"first\n\x1b[31msecond\x1b[0m\n")
    (await ready(hall, "two")).ring.append(b"other\n")
    agent.log.info("upstream.noted", upstream="one")
    agent.log.info("daemon.noted")

    lines = [line.split(" ", 1)[1] for line in (await agent.text("server_logs", server="one")).splitlines()]
    everything = await agent.text("server_logs")

    assert lines == ["one stderr: first", "one stderr: second", "one daemon: info: upstream.noted upstream=one"]
    assert "two stderr: other" in everything
    assert "mcpd daemon: info: daemon.noted" in everything
    content = await agent.read("mcpd://logs/one")
    assert [line.split(" ", 1)[1] for line in content["text"].splitlines()] == lines


async def test_a_secret_is_in_no_log(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY})
    hall.secrets = frozenset({"hunter2hunter2"})
    agent = Agent(hall)
    (await ready(hall, "one")).ring.append(b"the key is hunter2hunter2\n")

    text = await agent.text("server_logs", server="one")

    assert "the key is" in text
    assert "hunter2" not in text + (await agent.read("mcpd://logs/one"))["text"]


@pytest.mark.parametrize(("asked", "got"), [(2, 2), (-5, 1), (0, 1)])
async def test_only_so_many_of_the_last_lines_come(
    nursery: trio.Nursery, autojump_clock: MockClock, asked: int, got: int
) -> None:
    hall = Hall(nursery, {"one": LEGACY})
    (await ready(hall, "one")).ring.append(b"".join(b"line %d\n" % number for number in range(9)))

    lines = (await Agent(hall).text("server_logs", server="one", lines=asked)).splitlines()

    assert [line[-1] for line in lines] == [str(number) for number in range(9)][-got:]


async def test_a_log_that_would_flood_the_model_is_cut_at_its_beginning(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    hall = Hall(nursery, {"one": LEGACY})
    (await ready(hall, "one")).ring.append(b"".join(b"%03d%s\n" % (number, b"x" * 1000) for number in range(60)))

    first, *rest = (await Agent(hall).text("server_logs", server="one", lines=60)).splitlines()

    assert first == f"({60 - len(rest)} earlier lines are left out)"
    assert 10 < len(rest) < 60
    assert "stderr: 059" in rest[-1]


async def test_a_server_that_has_said_nothing_has_no_lines(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY})

    assert await Agent(hall).text("server_logs", server="one") == "there are no lines of server 'one' yet"


# -- restart_server ----------------------------------------------------------------------------------


async def test_a_server_that_runs_is_ended_and_started_again(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY})
    before = await ready(hall, "one")

    result = await Agent(hall).call("restart_server", server="one")

    assert before.ended
    assert text_of(result) == "server 'one' was restarted: one: ready"
    assert result["structuredContent"]["pid"] == hall.servers[-1].pid != before.pid


async def test_a_server_that_does_not_run_is_started(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY})

    assert (await Agent(hall).call("restart_server", server="one"))["structuredContent"]["state"] == "ready"


async def test_a_start_that_fails_is_told_with_the_last_words_of_the_server(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    def complains(server: FakeServer, message: dict[str, Any]) -> None:
        server.ring.append(b"no such database\n")
        server.react(message, -32000)

    hall = Hall(nursery, {"one": {**REFUSES, "initialize": complains}})

    text = await Agent(hall).failure("restart_server", server="one")

    assert "server 'one' could not be started: it refused initialize" in text
    assert "; server_logs shows what it has written\n" in text
    assert text.endswith("its last words on stderr:\nno such database")


async def test_one_copy_of_several_that_fails_is_told(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY}, scope="project")
    await hall.broker.resolve("one", Seeker("other", "/elsewhere")).slot.ready()
    hall.by_name["one"] = REFUSES

    assert "could not be started" in await Agent(hall).failure("restart_server", server="one")


async def test_a_server_that_is_slow_to_start_goes_on_starting(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    slow = {**LEGACY, "server/discover": after(200, -32601), "initialize": after(200, LEGACY["initialize"])}  # type: ignore[arg-type]
    hall = Hall(nursery, {"one": slow}, timeout=Timeout(start_seconds=300))
    begun = trio.current_time()

    result = await Agent(hall).call("restart_server", server="one")

    assert trio.current_time() - begun == own.RESTART_SECONDS
    assert text_of(result) == "server 'one' is starting after 45 s, and goes on; ask server_status"
    assert result["structuredContent"]["state"] == "starting"
    with trio.fail_after(NEVER_SECONDS):
        await hall.place("one").slot.ready()
    assert hall.spawns == 1


async def test_a_server_that_is_slow_to_stop_goes_on_stopping(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {"one": LEGACY}, stop=Stop(eof_seconds=100))
    hall.ends_in_seconds = 90
    await ready(hall, "one")

    result = await Agent(hall).call("restart_server", server="one")

    assert result["structuredContent"]["state"] == "stopping"
    assert "once it has stopped, it starts when it is called" in text_of(result)
    with trio.fail_after(NEVER_SECONDS):
        await hall.place("one").slot.ready()


# -- what goes wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["server_status", "server_logs", "restart_server"])
async def test_an_unknown_server_is_a_result_with_near_names(
    nursery: trio.Nursery, autojump_clock: MockClock, name: str
) -> None:
    agent = Agent(Hall(nursery, {"github": LEGACY}))

    assert await agent.failure(name, server="gihub") == "there is no server 'gihub'; did you mean github?"
    assert await agent.failure(name, server="zzz") == "there is no server 'zzz'; list_servers names them"


@pytest.mark.parametrize("uri", ["mcpd://servers/gihub", "mcpd://logs/gihub", "mcpd://logs/a/b"])
async def test_a_resource_of_an_unknown_server_is_not_found(
    nursery: trio.Nursery, autojump_clock: MockClock, uri: str
) -> None:
    with pytest.raises(UnknownTool, match="there is no server") as caught:
        await Agent(Hall(nursery, {"github": LEGACY})).read(uri)

    assert "github" in (caught.value.hint or "") or caught.value.hint == "mcpd://servers names them"


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("restart_server", {}, "missing required field `server`"),
        ("restart_server", {"server": 7}, "expected `str`, got `int`"),
        ("restart_server", {"server": None}, "expected `str`, got `null`"),
        ("server_logs", {"lines": "many"}, "expected `int`, got `str`"),
        ("list_servers", {"all": "yes"}, "expected `bool`, got `str`"),
    ],
)
async def test_arguments_that_do_not_fit_are_told_to_the_model(
    nursery: trio.Nursery, autojump_clock: MockClock, name: str, arguments: dict[str, Any], why: str
) -> None:
    hall = Hall(nursery, {"one": LEGACY})

    text = await Agent(hall).failure(name, **arguments)

    assert text.startswith("the arguments do not fit: ")
    assert why in text
    assert hall.spawns == 0


async def test_a_disabled_server_is_not_restarted(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {})
    configure(hall, '[servers.off]\ncommand = "x"\nenabled = false\n')

    assert "server 'off' is disabled" in await Agent(hall).failure("restart_server", server="off")


async def test_a_configuration_that_cannot_be_read_is_told(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    hall = Hall(nursery, {})
    agent = Agent(hall)
    hall.broker.config = msgspec.structs.replace(
        hall.broker.config, servers={}, problems=(Problem(file="config.toml", message="it is no TOML"),), file="config.toml"
    )

    assert "it is no TOML" in await agent.text("list_servers")
    assert "it is no TOML" in await agent.failure("server_status", server="one")
