"""A host in front of the real daemon, by way of the bridge that it spawns."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from tests.client.bridging import INITIALIZE, Host, notification, request
from tests.integration.world import until

if TYPE_CHECKING:
    from tests.integration.world import World


def bridge(world: World, *arguments: str) -> Host:
    return Host(*arguments, env=world.env, cwd=world.path)


def call(request_id: object, tool: str, **arguments: object) -> dict[str, Any]:
    return request(request_id, "tools/call", name=tool, arguments=arguments)


def answer(host: Host, request_id: object) -> Any:
    """Return the answer to a request; what else the daemon has to say does not matter."""
    while (message := host.next()).get("id") != request_id:
        assert "method" in message
    return message


def text(message: Any) -> str:
    value: str = message["result"]["content"][0]["text"]
    return value


def test_a_host_has_its_server_although_no_daemon_was_there(world: World) -> None:
    with bridge(world, "demo") as host:
        assert host.initialize()["result"]["serverInfo"]["name"] == "mcpd-demo"
        host.send(request(2, "tools/list"))
        assert "echo" in [tool["name"] for tool in answer(host, 2)["result"]["tools"]]
        host.send(call(3, "echo", text="hé"))
        assert text(answer(host, 3)) == "hé"
        assert len(world.daemons()) == 1


def test_a_host_that_writes_everything_and_leaves_gets_every_answer(world: World) -> None:
    with bridge(world, "demo") as host:
        host.send(request(1, "initialize", **INITIALIZE), notification("notifications/initialized"))
        host.send(*(call(number, "echo", text=str(number)) for number in range(10, 13)))
        host.hang_up()

        answers = {message["id"]: message for message in (host.next() for _ in range(4))}  # in whatever order
        assert "result" in answers.pop(1)
        assert {number: text(message) for number, message in answers.items()} == {10: "10", 11: "11", 12: "12"}
        assert (host.next_line(), host.status(), host.errors()) == (b"", 0, "")


def test_a_daemon_that_is_killed_costs_each_host_one_error_and_nothing_runs_twice(world: World) -> None:
    with bridge(world, "demo") as one, bridge(world, "demo") as other:
        for host in (one, other):
            host.initialize()
            host.send(call(2, "echo", text="warm"))
            assert text(answer(host, 2)) == "warm"
            host.send(call(3, "slow", seconds=60))
        until(lambda: world.row("demo")["in_flight"] == 2)

        world.signal_daemon(signal.SIGKILL)

        for host in (one, other):
            assert answer(host, 3)["error"]["data"] | {"hint": ""} == {
                "class": "server_lost", "may_have_run": True, "hint": "",
            }  # fmt: skip
            host.send(call(4, "counter"))
        # It has forgotten what it counted; each call counts once.
        assert sorted(text(answer(host, 4)) for host in (one, other)) == ["1", "2"]
        assert len(world.daemons()) == 1


def test_a_host_that_began_without_a_daemon_is_told_when_there_is_one(world: World) -> None:
    world.env["MCPD_NO_AUTOSTART"] = "1"
    with bridge(world, "demo") as host:
        assert host.initialize()["result"]["serverInfo"]["name"] == "demo"
        host.send(request(2, "tools/list"))
        assert world.socket in answer(host, 2)["error"]["message"]

        assert world.run("up").status == 0

        assert host.next()["method"] == "notifications/tools/list_changed"
        host.send(request(3, "tools/list"))
        assert answer(host, 3)["result"]["tools"]


def test_a_server_that_is_not_known_is_named_to_the_host_and_in_its_log(world: World) -> None:
    with bridge(world, "nosuch") as host:
        why = host.initialize()["error"]["message"]
        assert "nosuch" in why
        host.hang_up()
        assert host.errors() == f"mcpd bridge: {why}\n"
