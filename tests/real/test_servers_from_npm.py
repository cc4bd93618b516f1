from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.integration.world import World


def call(world: World, *argv: str) -> dict[str, Any]:
    result: dict[str, Any] = world.run("call", *argv, "--json").json
    return result


def text(world: World, *argv: str) -> str:
    return str(call(world, *argv)["content"][0]["text"])


def test_everything_echoes_and_adds(real: World) -> None:
    assert text(real, "everything", "echo", "message=hi") == "Echo: hi"
    assert text(real, "everything", "get-sum", "a=2", "b=3") == "The sum of 2 and 3 is 5."


def test_everything_returns_what_is_more_than_text(real: World) -> None:
    structured = call(real, "everything", "get-structured-content", "location=New York")
    picture = next(item for item in call(real, "everything", "get-tiny-image")["content"] if item["type"] == "image")

    assert structured["structuredContent"] == json.loads(structured["content"][0]["text"])
    assert picture["mimeType"] == "image/png"
    assert base64.b64decode(picture["data"]).startswith(b"\x89PNG")


def test_everything_reports_progress(real: World) -> None:
    with real.connect() as wire:
        said = wire.text(
            "trigger-long-running-operation",
            {"duration": 1, "steps": 4},
            server="everything",
            _meta={"progressToken": "mine"},
        )

    assert said.startswith("Long running operation completed")
    params = [note["params"] for note in wire.notes if note["method"] == "notifications/progress"]
    assert [each["progressToken"] for each in params] == ["mine"] * len(params)
    assert [each["progress"] for each in params][-1] == 4


def test_everything_sees_no_variable_that_it_was_not_given(real: World) -> None:
    seen = json.loads(text(real, "everything", "get-env"))

    assert seen["HOME"] == real.env["HOME"]
    assert [name for name in seen if name.startswith(("MCPD_", "PYTHON", "PIP_"))] == []


def test_memory_remembers_what_another_process_told_it(real: World) -> None:
    entity = {"name": "mcpd", "entityType": "daemon", "observations": ["shares servers"]}

    call(real, "memory", "create_entities", f"entities:={json.dumps([entity])}")

    found = call(real, "memory", "search_nodes", "query=shares")
    assert found["structuredContent"] == {"entities": [entity], "relations": []}
    assert "shares servers" in (real.path / "memory.jsonl").read_text()
    assert real.row("memory")["incarnation"] == 1


def test_filesystem_reads_and_writes_where_it_may(real: World) -> None:
    path = real.path / "files/note.txt"
    long = "".join(f"line {number}\n" for number in range(10_000))

    call(real, "filesystem", "write_file", f"path={path}", "content=one\ntwo\n")
    assert path.read_text() == "one\ntwo\n"
    assert text(real, "filesystem", "read_text_file", f"path={path}") == "one\ntwo\n"

    path.write_text(long)
    cut = call(real, "filesystem", "read_text_file", f"path={path}")
    handle = cut["_meta"]["mcpd/view"]["handle"]
    whole = real.run("fetch", handle, "--all")
    assert cut["content"][0]["text"] == long[: 32 * 1024]
    assert whole.out.startswith(long)


def test_filesystem_refuses_what_is_outside(real: World) -> None:
    done = real.run("call", "filesystem", "read_text_file", "path=/etc/passwd", "--json")

    assert done.status == 5
    result = json.loads(done.out)
    assert result["isError"] is True
    assert "Access denied" in result["content"][0]["text"]


def test_sequential_thinking_takes_every_type_of_argument(real: World) -> None:
    result = call(
        real, "sequential-thinking", "sequentialthinking",
        "thought=what comes first", "nextThoughtNeeded=true", "thoughtNumber=1", "totalThoughts=2",
    )  # fmt: skip

    assert json.loads(result["content"][0]["text"])["nextThoughtNeeded"] is True
