from __future__ import annotations

import json
import os
import pty
import subprocess
from queue import Queue
from typing import TYPE_CHECKING, Any

import pytest

from mcpd_client.cli.main import main
from mcpd_client.cli.questions import Asker
from mcpd_client.cli.render import display_width
from mcpd_client.errors import Withdrawn
from mcpd_client.waiting import ServerRequest
from tests.client.terminal import COMMAND, CTRL_C, CTRL_D, Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.scripted import Peer

ANSWER = {"type": "object", "properties": {"answer": {"type": "string", "title": "Answer"}}, "required": ["answer"]}
BOTH = {"elicitation": {"form": {}, "url": {}}}
CALL = ("call", "demo", "ask")
BEGIN = "Enter to answer, d to decline, Ctrl-D to cancel: "
END = "Enter sends this, e edits it, d declines: "
CONSENT = "y accepts, d declines: "
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1, "message": "busy"}}


def form(schema: object = ANSWER, message: str = "[demo] What is it?", **more: object) -> dict[str, Any]:
    return {"message": message, "requestedSchema": schema, "_meta": {"mcpd/server": "demo"}, **more}


def page(url: object, message: str = "Please sign in") -> dict[str, Any]:
    return {"mode": "url", "message": message, "url": url, "_meta": {"mcpd/server": "demo"}}


class Asking:
    """A daemon whose command asks questions one by one, and then ends with `done`.

    Attributes:
        seen: the requests of clients.
        answers: what came back for each question; None is the end of the connection.
    """

    def __init__(self, serve: Any, *questions: dict[str, Any], before: tuple[object, ...] = ()) -> None:
        self.answers: Queue[Any] = Queue()
        self._questions = questions
        self._before = before
        self.seen: list[dict[str, Any]] = serve({"mcpd/cli": self._run, "mcpd/hello": {}})

    def _run(self, peer: Peer, request: dict[str, Any]) -> None:
        peer.send(*self._before)
        for number, params in enumerate(self._questions, start=1):
            peer.send({"jsonrpc": "2.0", "id": f"s{number}", "method": "elicitation/create", "params": params})
            self.answers.put(peer.read())
        peer.answer(request, {"exit": 0, "stdout": "done\n", "stderr": ""})

    def result(self) -> Any:
        """The next answer's result."""
        answer = self.answers.get(timeout=30)
        return answer.get("result", answer.get("error"))


def test_a_call_on_a_terminal_asks_and_the_answer_arrives(serve: Any) -> None:
    asking = Asking(serve, form())

    with Terminal(*CALL) as terminal:
        terminal.answer("  Answer: ", "forty-two é")
        terminal.answer(END, "")
        assert terminal.finish() == 0

    assert asking.result() == {"action": "accept", "content": {"answer": "forty-two é"}}
    assert asking.seen[0]["params"]["capabilities"] == BOTH
    assert len(asking.seen) == 1
    assert terminal.shown == (
        "server 'demo' asks:\n  | What is it?\n(Enter takes what is in [brackets], Ctrl-D cancels, you can decline before it is sent)\n"
        f"  Answer: forty-two é\n{END}\ndone\n"
    )


def test_every_kind_of_field_is_asked_with_its_default(serve: Any) -> None:
    schema = {
        "properties": {
            "name": {"type": "string", "title": "Name", "description": "Who you are", "default": "Ada"},
            "age": {"type": "integer", "minimum": 0, "default": 36},
            "sure": {"type": "boolean", "default": False},
            "colour": {"oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}], "default": "g"},
            "tags": {"type": "array", "items": {"enum": ["x", "y", "z"]}, "default": ["x"]},
            "note": {"type": "string"},
        }
    }
    asking = Asking(serve, form(schema), form(schema))

    with Terminal(*CALL) as terminal:
        terminal.answer(BEGIN, "")
        terminal.answer("  | Who you are\n  Name (optional) [Ada]: ", "")
        terminal.answer("  age (a whole number, at least 0; optional) [36]: ", "")
        terminal.answer("  sure (y or n; optional) [no]: ", "")
        terminal.answer("  | 1) Red\n  | 2) Green\n  colour (a number or a name; optional) [Green]: ", "")
        terminal.answer("  tags (numbers or names with commas, - for none; optional) [x]: ", "")
        terminal.answer("  note (optional): ", "")
        terminal.answer(END, "")
        terminal.answer(BEGIN, "")
        for prompt, text in (
            ("Name", "Bob"),
            ("age", "7"),
            ("sure", "y"),
            ("colour", "1"),
            ("tags", "2,z"),
            ("note", "n"),
        ):
            terminal.answer(f"  {prompt} (", text)
        terminal.answer(END, "y")
        assert terminal.finish() == 0

    defaults = {"name": "Ada", "age": 36, "sure": False, "colour": "g", "tags": ["x"]}
    assert asking.result() == {"action": "accept", "content": defaults}
    changed = {"name": "Bob", "age": 7, "sure": True, "colour": "r", "tags": ["y", "z"], "note": "n"}
    assert asking.result() == {"action": "accept", "content": changed}


def test_a_wrong_answer_is_explained_and_asked_again(serve: Any) -> None:
    asking = Asking(serve, form({"properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}))

    with Terminal(*CALL) as terminal:
        terminal.answer("at most 9): ", "ten")
        terminal.read_until("  'n' must be a whole number, at most 9\n")
        terminal.answer("at most 9): ", "")
        terminal.read_until("  an answer is required\n")
        terminal.answer("at most 9): ", "9")
        terminal.answer(END, "what?")
        terminal.answer(END, "")
        assert terminal.finish() == 0

    assert asking.result() == {"action": "accept", "content": {"n": 9}}


def test_answers_can_be_changed_before_they_are_sent(serve: Any) -> None:
    asking = Asking(serve, form({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}))

    with Terminal(*CALL) as terminal:
        terminal.answer(BEGIN, "what?")
        terminal.answer(BEGIN, "")
        terminal.answer("a (optional): ", "one")
        terminal.answer("b (optional): ", "two")
        terminal.answer(END, "e")
        terminal.answer("a (optional) [one]: ", "")
        terminal.answer("b (optional) [two]: ", "three")
        terminal.answer(END, "")
        assert terminal.finish() == 0

    assert asking.result()["content"] == {"a": "one", "b": "three"}


@pytest.mark.parametrize("word", ["d", "decline", "n"])
def test_a_question_can_be_declined(serve: Any, word: str) -> None:
    asking = Asking(serve, form())

    with Terminal(*CALL) as terminal:
        terminal.answer("Answer: ", "x")
        terminal.answer(END, word)
        assert terminal.finish() == 0

    assert asking.result() == {"action": "decline"}


@pytest.mark.parametrize("word", ["d", "decline", "n"])
def test_a_form_of_several_fields_can_be_declined_before_any_is_filled_in(serve: Any, word: str) -> None:
    asking = Asking(serve, form({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}))

    with Terminal(*CALL) as terminal:
        terminal.answer(BEGIN, word)
        assert terminal.finish() == 0

    assert asking.result() == {"action": "decline"}
    assert "a: " not in terminal.shown


@pytest.mark.parametrize(
    ("rules", "prompt"),
    [
        ({"type": "string", "title": "t" * 90}, "  " + "t" * 28 + "… (optional): "),
        (
            {"type": "string", "title": "t" * 90, "minLength": 1000, "maxLength": 9999, "format": "email"},
            "  | an e-mail address of 1000 to 9999\n  | characters; optional\n  " + "t" * 39 + "…: ",
        ),
        ({"type": "integer", "title": "t" * 90, "default": 7}, "  | default: 7\n  | a whole number; optional\n"),
    ],
)
def test_a_label_that_is_longer_than_the_line_is_cut_and_its_notes_stay_whole(
    serve: Any, rules: dict[str, Any], prompt: str
) -> None:
    Asking(serve, form({"properties": {"x": rules}}))

    with Terminal(*CALL, columns=50) as terminal:
        terminal.answer(prompt, "")
        terminal.answer(END, "")
        assert terminal.finish() == 0


@pytest.mark.parametrize("keys", [CTRL_D, f"half{CTRL_D}{CTRL_D}"])
def test_ctrl_d_cancels_the_question_and_not_the_call(serve: Any, keys: str) -> None:
    asking = Asking(serve, form())

    with Terminal(*CALL) as terminal:
        terminal.read_until("Answer: ")
        terminal.type(keys)
        terminal.read_until("\ncancelled\n")
        assert terminal.finish() == 0

    assert asking.result() == {"action": "cancel"}


def test_ctrl_c_while_asking_ends_the_call(serve: Any) -> None:
    asking = Asking(serve, form())

    with Terminal(*CALL) as terminal:
        terminal.read_until("Answer: ")
        terminal.type(CTRL_C)
        terminal.read_until("\ninterrupted; the call may have run\n")
        assert terminal.finish() == 130

    # The connection has closed, and that cancels the call.
    assert asking.answers.get(timeout=30) is None


def test_ctrl_c_after_an_answer_ends_the_call(serve: Any) -> None:
    ended: Queue[object] = Queue()

    def ask(peer: Peer, _: object) -> None:
        peer.send({"jsonrpc": "2.0", "id": "s1", "method": "elicitation/create", "params": form({})})
        peer.read()
        peer.send(PROGRESS)
        ended.put(peer.read())

    serve({"mcpd/cli": ask})

    with Terminal(*CALL) as terminal:
        terminal.answer(CONSENT, "y")
        terminal.read_until("busy")
        terminal.type(CTRL_C)
        terminal.read_until("interrupted; the call may have run\n")
        assert terminal.finish() == 130

    assert ended.get(timeout=30) is None


def test_a_form_without_fields_needs_a_word(serve: Any) -> None:
    asking = Asking(serve, form({"type": "object", "properties": {}}, "Delete it all?"))

    with Terminal(*CALL) as terminal:
        terminal.answer(CONSENT, "")
        terminal.answer(CONSENT, "y")
        assert terminal.finish() == 0

    assert asking.result() == {"action": "accept", "content": {}}


def test_a_withdrawn_question_leaves_the_terminal(serve: Any) -> None:
    def ask(peer: Peer, request: dict[str, Any]) -> None:
        peer.send({"jsonrpc": "2.0", "id": "s1", "method": "elicitation/create", "params": form()})
        shown.get(timeout=30)
        params = {"requestId": "s1", "reason": "the server \x1b[2Jhas gone"}
        peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        peer.answer(request, {"exit": 4, "stdout": "", "stderr": "error: lost\n"})

    shown: Queue[None] = Queue()
    serve({"mcpd/cli": ask})

    with Terminal(*CALL) as terminal:
        terminal.read_until("Answer: ")
        terminal.type("half an ans")
        shown.put(None)
        terminal.read_until("\nthe question was withdrawn: the server has gone\n")
        assert terminal.finish() == 4

    assert terminal.shown.endswith("error: lost\n")


def test_what_was_typed_for_a_withdrawn_question_is_left_to_nobody() -> None:
    controller, terminal = pty.openpty()

    def withdraw(_: object) -> None:
        os.write(controller, b"half")
        shown = b""
        while not shown.endswith(b"half"):
            shown += os.read(controller, 1000)
        raise Withdrawn("late")

    with pytest.raises(Withdrawn):
        Asker(fd_in=terminal, fd_out=terminal)(ServerRequest("elicitation/create", form(), withdraw))

    os.write(controller, b"next\n")
    assert os.read(terminal, 1000) == b"next\n"
    os.close(controller)
    os.close(terminal)


def test_what_a_server_says_cannot_pass_for_anything_else(serve: Any) -> None:
    schema = {
        "properties": {
            "x": {
                "type": "string",
                "title": "x\nserver 'bank' asks:\x1b[1A",
                "description": "\u202e" + "wide " * 40 + "世" * 100,
                "default": "\x9b31m" + "d" * 200,
            }
        }
    }
    message = "one\x1b]0;title\x07\r\n" + "long " * 30 + "\nserver 'bank' asks:\n" + "line\n" * 100
    Asking(serve, form(schema, message))

    with Terminal(*CALL, columns=40) as terminal:
        terminal.answer("[default]: ", "")
        terminal.answer(END, "")
        assert terminal.finish() == 0

    assert not set(terminal.shown) & set("\x1b\x9b\x07\u202e")
    lines = terminal.shown.splitlines()
    allowed = ("  ", "server 'demo' asks:", "(Enter takes", "Enter sends", "done")
    assert [line for line in lines if not line.startswith(allowed)] == []
    assert all(display_width(line) <= 40 for line in lines if line.startswith("  | "))
    assert "".join(line.removeprefix("  | ") for line in lines).count("d" * 24) >= 8
    assert any("more lines" in line for line in lines)


def test_a_page_is_shown_whole_and_opened_by_nobody(serve: Any) -> None:
    url = "https://github.com@evil.example:8443/" + "x" * 100 + "?q=1#f"
    asking = Asking(serve, page(url), page("http://[::1]/"))

    with Terminal(*CALL) as terminal:
        terminal.read_until("server 'demo' wants you to open a page in your browser:\n  | Please sign in\n")
        terminal.read_until(f"  {url}\n  host: evil.example\n")
        terminal.answer(CONSENT, "")
        terminal.answer(CONSENT, "y")
        terminal.read_until("open it in a browser now")
        terminal.answer(CONSENT, "d")
        assert terminal.finish() == 0

    assert asking.result() == {"action": "accept"}
    assert asking.result() == {"action": "decline"}


@pytest.mark.parametrize(
    "url",
    [
        None,
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://",
        "https://evil.example\\@github.com/",
        "https://gith\u0443b.com/",
        "https://github.com/\x1b[2J",
        "https://github.com /",
        "https://[::1/",
    ],
)
def test_a_page_that_is_no_plain_url_is_refused(serve: Any, url: object) -> None:
    asking = Asking(serve, page(url))

    with Terminal(*CALL) as terminal:
        assert terminal.finish() == 0

    assert asking.result()["code"] == -32602
    assert terminal.shown == "done\n"


@pytest.mark.parametrize(
    ("method", "mode", "code"), [("sampling/createMessage", "form", -32601), ("", "other", -32602)]
)
def test_what_is_no_question_is_refused(serve: Any, method: str, mode: str, code: int) -> None:
    answers: Queue[Any] = Queue()

    def ask(peer: Peer, request: dict[str, Any]) -> None:
        params = form(mode=mode)
        peer.send({"jsonrpc": "2.0", "id": "s1", "method": method or "elicitation/create", "params": params})
        answers.put(peer.read())
        peer.answer(request, {"exit": 0, "stdout": "done\n", "stderr": ""})

    serve({"mcpd/cli": ask})

    with Terminal(*CALL) as terminal:
        assert terminal.finish() == 0

    assert answers.get(timeout=30)["error"]["code"] == code


def test_progress_leaves_the_line_while_something_is_asked(serve: Any) -> None:
    asking = Asking(serve, form({}), before=(PROGRESS,))

    with Terminal(*CALL) as terminal:
        terminal.read_until("busy\r\x1b[Kserver 'demo' asks:\n")
        terminal.answer(CONSENT, "y")
        assert terminal.finish() == 0

    assert asking.result()["action"] == "accept"


def test_what_was_typed_before_a_question_is_not_its_answer(serve: Any) -> None:
    typed: Queue[None] = Queue()

    def ask(peer: Peer, request: dict[str, Any]) -> None:
        peer.send(PROGRESS)
        typed.get(timeout=30)
        peer.send({"jsonrpc": "2.0", "id": "s1", "method": "elicitation/create", "params": form({})})
        answers.put(peer.read())
        peer.answer(request, {"exit": 0, "stdout": "done\n", "stderr": ""})

    answers: Queue[Any] = Queue()
    serve({"mcpd/cli": ask})

    with Terminal(*CALL) as terminal:
        terminal.read_until("busy")
        terminal.type("y\n")
        terminal.read_until("y\n")
        typed.put(None)
        terminal.answer(CONSENT, "d")
        assert terminal.finish() == 0

    assert answers.get(timeout=30)["result"] == {"action": "decline"}


@pytest.mark.parametrize("more", [(), ("--json",), ("-v",), ("-q",)])
def test_data_goes_elsewhere_while_the_terminal_asks(serve: Any, more: tuple[str, ...]) -> None:
    asking = Asking(serve, form())

    with Terminal(*CALL, *more, stdout=subprocess.PIPE) as terminal:
        terminal.answer("Answer: ", "x")
        terminal.answer(END, "")
        assert terminal.finish() == 0
        assert terminal.process.stdout is not None
        assert terminal.process.stdout.read() == b"done\n"

    assert asking.result()["action"] == "accept"
    assert asking.seen[0]["params"]["capabilities"] == BOTH
    assert "done" not in terminal.shown


def test_tools_asks_nothing(serve: Any) -> None:
    asking = Asking(serve)

    with Terminal("tools") as terminal:
        assert terminal.finish() == 0

    assert "capabilities" not in asking.seen[0]["params"]


@pytest.mark.parametrize("more", [[], ["-v"]])
def test_without_a_terminal_nothing_is_declared_and_what_comes_is_refused(serve: Any, more: list[str]) -> None:
    asking = Asking(serve, form())

    done = subprocess.run(
        [*COMMAND, *CALL, *more], capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=60
    )

    assert (done.stdout, done.returncode) == (b"done\n", 0)
    assert asking.result()["code"] == -32601
    assert "capabilities" not in asking.seen[0]["params"]


DEFAULTS = {"properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("value", "question", "result"),
    [
        ("accept-defaults", form(DEFAULTS), {"action": "accept", "content": {"a": "x"}}),
        ("decline", form(), {"action": "decline"}),
        ("decline", page("https://a.example/"), {"action": "decline"}),
        ('{"answer": "é"}', form(), {"action": "accept", "content": {"answer": "é"}}),
        ('{"b": 3}', form(DEFAULTS), {"action": "accept", "content": {"a": "x", "b": 3}}),
    ],
)
def test_a_prepared_answer_is_given_without_a_terminal(
    serve: Any, capfd: pytest.CaptureFixture[str], value: str, question: dict[str, Any], result: object
) -> None:
    asking = Asking(serve, question)

    assert main([*CALL, "--elicit", value, "text=x"]) == 0

    assert asking.result() == result
    params = asking.seen[0]["params"]
    assert params["argv"] == ["call", "demo", "ask", "text=x"]
    assert params["capabilities"] == (BOTH if value == "decline" else {"elicitation": {"form": {}}})
    assert capfd.readouterr() == ("done\n", "")


@pytest.mark.parametrize(
    ("value", "problem", "right"),
    [
        ("accept-defaults", "'answer' is required and has no default", '{"answer": "…"}'),
        ('{"answer": 1}', "'answer' must be text", '{"answer": "…"}'),
        ('{"answer": "x", "more": 1}', "there is no field 'more'; there is answer", '{"answer": "x"}'),
    ],
)
def test_a_prepared_answer_that_does_not_fit_cancels_and_says_what_to_write(
    serve: Any, capfd: pytest.CaptureFixture[str], value: str, problem: str, right: str
) -> None:
    asking = Asking(serve, form(), form())

    assert main([*CALL, f"--elicit={value}"]) == 2

    assert asking.result() == asking.result() == {"action": "cancel"}
    assert capfd.readouterr() == (
        "done\n",
        f"error: --elicit does not answer the question of server 'demo': {problem}\n"
        f"  the question was cancelled; the call may have run\n  write --elicit '{right}'\n",
    )

    assert main([*CALL, f"--elicit={value}", "--json"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert right in json.loads(line)["error"]["hint"]


def test_what_to_write_instead_has_the_shape_of_the_form(serve: Any, capfd: pytest.CaptureFixture[str]) -> None:
    fields = {
        "count": {"type": "integer", "minimum": 3},
        "share": {"type": "number", "maximum": 0.5},
        "sure": {"type": "boolean"},
        "size": {"enum": ["s", "m"]},
        "tags": {"type": "array", "items": {"enum": ["x", "y"]}},
        "note": {"type": "string"},
        "kept": {"type": "string", "default": "k"},
    }
    Asking(serve, form({"properties": fields, "required": ["count", "share", "sure", "size", "tags"]}))

    assert main([*CALL, "--elicit", "accept-defaults"]) == 2

    written = capfd.readouterr().err.partition("write --elicit ")[2].strip().strip("'")
    assert json.loads(written) == {"count": 3, "share": 0.5, "sure": True, "size": "s", "tags": ["x"], "kept": "k"}


def test_a_prepared_answer_consents_to_no_page(serve: Any) -> None:
    asking = Asking(serve, page("https://a.example/"))

    main([*CALL, "--elicit", "accept-defaults"])

    assert asking.result()["code"] == -32602


def test_a_prepared_answer_comes_from_a_file_and_goes_before_the_terminal(serve: Any, home: Path) -> None:
    (home / "answer.json").write_text(json.dumps({"answer": "from a file"}))
    asking = Asking(serve, form())

    with Terminal(*CALL, "--elicit", f"@{home}/answer.json") as terminal:
        assert terminal.finish() == 0

    assert asking.result()["content"] == {"answer": "from a file"}
    assert terminal.shown == "done\n"


@pytest.mark.parametrize("value", ["accept", "[]", "{", "", "@/nowhere"])
def test_a_prepared_answer_that_makes_no_sense_is_a_usage_error(serve: Any, value: str) -> None:
    asking = Asking(serve)

    assert main([*CALL, "--elicit", value]) == 2

    assert asking.seen == []


def test_a_call_whose_content_is_saved_can_ask_too(serve: Any, home: Path) -> None:
    def ask(peer: Peer, request: dict[str, Any]) -> None:
        peer.send({"jsonrpc": "2.0", "id": "s1", "method": "elicitation/create", "params": form()})
        answer = peer.read()
        assert answer is not None
        text = answer["result"]["content"]["answer"]
        out = json.dumps({"content": [{"type": "text", "text": text}]})
        peer.answer(request, {"exit": 0, "stdout": out, "stderr": ""})

    serve({"mcpd/cli": ask})

    assert main([*CALL, "--elicit", '{"answer": "x"}', "-o", f"{home}/out"]) == 0

    assert (home / "out").read_text() == "x\n"


def test_two_terminals_at_once_each_get_their_own_question(serve: Any) -> None:
    def ask(peer: Peer, request: dict[str, Any]) -> None:
        who = request["params"]["argv"][-1]
        peer.send({"jsonrpc": "2.0", "id": "s1", "method": "elicitation/create", "params": form(message=who)})
        answer = peer.read()
        assert answer is not None
        out = f"{who} got {answer['result']['content']['answer']}\n"
        peer.answer(request, {"exit": 0, "stdout": out, "stderr": ""})

    serve({"mcpd/cli": ask})

    with Terminal(*CALL, "who=one") as one, Terminal(*CALL, "who=two") as two:
        one.read_until("who=one\n")
        two.read_until("who=two\n")
        for terminal, text in ((two, "second"), (one, "first")):
            terminal.answer("Answer: ", text)
            terminal.answer(END, "")
        assert (one.finish(), two.finish()) == (0, 0)

    assert one.shown.endswith("who=one got first\n")
    assert two.shown.endswith("who=two got second\n")


def test_the_help_explains_it(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["call", "--help"]) == 0

    assert "--elicit ANSWER" in capfd.readouterr().out
