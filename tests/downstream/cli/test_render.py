import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.downstream.cli.commandline import CallCommand
from mcpd.downstream.cli.render import call_output
from mcpd.downstream.cli.text import Output
from mcpd.errors import ServerProtocol


def printed(result, columns=None, **options):
    encoded = result if isinstance(result, bytes) else json.dumps(result, ensure_ascii=False).encode()
    return call_output(encoded, CallCommand("github", "create", **options), columns)


def text(*texts):
    return {"content": [{"type": "text", "text": one} for one in texts]}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["hello"], "hello\n"),
        (["hello\n"], "hello\n"),
        (["hello\n\n"], "hello\n\n"),
        (["a", "b"], "a\nb\n"),
        (["a\n", "b"], "a\nb\n"),
        (["", "a", "", "b", ""], "a\nb\n"),
        ([""], ""),
        ([], ""),
        (["\x1b[31mred\x1b[0m\r\n"], "\x1b[31mred\x1b[0m\r\n"),
    ],
)
def test_text_is_printed_as_it_is(texts, expected):
    assert printed(text(*texts)) == Output(0, expected, "")


def test_a_terminal_gets_text_without_controls():
    assert printed(text("\x1b[31mred\x1b[0m\u202e"), columns=80).stdout == "red<U+202E>\n"


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big") + bytes(34_000 - 24)
GIF = b"GIF89a" + (3).to_bytes(2, "little") + (5).to_bytes(2, "little") + b"\0\0\0"
JPEG = (
    b"\xff\xd8\xff\xe1\0\x08Exif\0\0\xff\xff\xc0\0\x11\x08"
    + (480).to_bytes(2, "big")
    + (640).to_bytes(2, "big")
    + b"\x03"
)


def encoded(content):
    return base64.b64encode(content).decode()


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (
            {"type": "image", "data": encoded(PNG), "mimeType": "image/png"},
            "[image/png 640x480 34 kB: use --save DIR or -o FILE]",
        ),
        (
            {"type": "image", "data": encoded(GIF), "mimeType": "image/gif"},
            "[image/gif 3x5 13 bytes: use --save DIR or -o FILE]",
        ),
        (
            {"type": "image", "data": encoded(JPEG), "mimeType": "image/jpeg"},
            "[image/jpeg 640x480 23 bytes: use --save DIR or -o FILE]",
        ),
        ({"type": "image", "data": "AAAA", "mimeType": "image/x"}, "[image/x 3 bytes: use --save DIR or -o FILE]"),
        ({"type": "image", "data": "A"}, "[image 0 bytes: use --save DIR or -o FILE]"),
        (
            {"type": "audio", "data": encoded(b"x" * 5), "mimeType": "audio/wav"},
            "[audio/wav 5 bytes: use --save DIR or -o FILE]",
        ),
        (
            {"type": "audio", "data": encoded(b"x" * 4), "mimeType": "a\nb\x1b[31m"},
            "[a b 4 bytes: use --save DIR or -o FILE]",
        ),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain", "size": 34000},
            "file:///a (a, text/plain, 34 kB)",
        ),
        ({"type": "resource_link", "uri": "file:///a", "name": "a"}, "file:///a (a)"),
        ({"type": "resource_link", "uri": "file:///a", "size": -1}, "file:///a"),
        ({"type": "resource", "resource": {"uri": "x", "text": "the text\n"}}, "the text"),
        (
            {"type": "resource", "resource": {"uri": "x", "blob": "AAAA", "mimeType": "application/pdf"}},
            "[application/pdf 3 bytes]",
        ),
        ({"type": "resource", "resource": {"uri": "x", "blob": "AA=="}}, "[resource 1 bytes]"),
        ({"type": "new", "x": 1.0}, '{"type": "new", "x": 1.0}'),
        ({"type": "text"}, '{"type": "text"}'),
        ({"type": "text", "text": 5}, '{"type": "text", "text": 5}'),
        ({"type": "image", "data": 5}, '{"type": "image", "data": 5}'),
        ({"type": "resource", "resource": "x"}, '{"type": "resource", "resource": "x"}'),
        ({"type": "resource", "resource": {}}, '{"type": "resource", "resource": {}}'),
        ({"type": "resource_link"}, '{"type": "resource_link"}'),
        ({"type": 5}, '{"type": 5}'),
        ({}, "{}"),
        ("odd", '"odd"'),
    ],
)
def test_every_kind_of_block_has_its_text(block, line):
    assert printed({"content": [block]}).stdout == line + "\n"


def test_unknown_blocks_take_one_line():
    assert printed(b'{"content":[{"type":\n"new",\r\n"n":12345678901234567890123}]}').stdout == (
        '{"type": "new",  "n":12345678901234567890123}\n'
    )


def test_structured_content_keeps_its_numbers():
    shown = b'{"content":[],"structuredContent":{"n":12345678901234567890123,"f":1.0,"a":[1]}}'

    assert printed(shown).stdout == '{\n  "n": 12345678901234567890123,\n  "f": 1.0,\n  "a": [\n    1\n  ]\n}\n'


STRUCTURED = {"n": 1, "s": "é", "a": [1.5, True]}
PRETTY = '{\n  "n": 1,\n  "s": "é",\n  "a": [\n    1.5,\n    true\n  ]\n}\n'


def test_structured_content_without_content_is_printed():
    for content in ({}, {"content": []}, text(""), text("", "")):
        assert printed({**content, "structuredContent": STRUCTURED}).stdout == PRETTY
    assert printed({"content": [], "structuredContent": 5}).stdout == "5\n"
    assert printed({"content": [], "structuredContent": {"result": []}}).stdout == '{\n  "result": []\n}\n'
    assert printed({"content": [], "structuredContent": None}).stdout == ""


def test_text_and_structured_content_that_say_different_things_are_both_printed():
    assert printed({**text("two rows"), "structuredContent": STRUCTURED}).stdout == f"two rows\n{PRETTY}"
    assert printed({"content": [{"type": "x"}], "structuredContent": [1]}).stdout == '{"type": "x"}\n[\n  1\n]\n'
    resource = {"type": "resource", "resource": {"text": "a"}}
    assert printed({"content": [resource], "structuredContent": 1}).stdout == "a\n1\n"


@pytest.mark.parametrize(
    "said",
    [
        json.dumps(STRUCTURED),
        json.dumps(STRUCTURED, indent=4),
        json.dumps(STRUCTURED, sort_keys=True, separators=(",", ":")),
        json.dumps(dict(reversed(STRUCTURED.items())), ensure_ascii=False, indent="\t"),
    ],
)
def test_text_that_is_the_structured_content_is_not_printed_twice(said):
    assert printed({**text(said), "structuredContent": STRUCTURED}).stdout == f"{said}\n"
    assert printed({**text("two rows", said), "structuredContent": STRUCTURED}).stdout == f"two rows\n{said}\n"


@pytest.mark.parametrize(
    ("said", "structured"),
    [
        ("[1]", b"[1.0]"),
        ('{"n":12345678901234567890123,"m":0}', b'{"n":12345678901234567890124,"m":0}'),
        ('{"n":9007199254740993,"m":0}', b'{"n":9007199254740992,"m":0}'),
        ('{"t":1,"m":0}', b'{"t":true,"m":0}'),
        ("[1,2]", b"[2,1]"),
    ],
)
def test_text_that_is_almost_the_structured_content_does_not_stand_for_it(said, structured):
    content = json.dumps([{"type": "text", "text": said}]).encode()

    out = printed(b'{"content":%b,"structuredContent":%b}' % (content, structured)).stdout

    assert out.startswith(f"{said}\n")
    assert out.removeprefix(f"{said}\n").translate({32: None, 10: None}) == structured.decode()


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        (["3"], {"sum": 3}),
        (["hello"], {"result": "hello"}),
        (['"hello"'], {"result": "hello"}),
        (["[1, 2]"], {"result": [1, 2]}),
        (["a", '{"b": 1}'], {"result": ["a", {"b": 1}]}),
    ],
)
def test_a_value_that_a_server_has_wrapped_is_not_printed_twice(texts, structured):
    assert printed({**text(*texts), "structuredContent": structured}).stdout == "".join(f"{one}\n" for one in texts)


def test_pictures_beside_structured_content_are_kept():
    picture = {"type": "image", "data": encoded(GIF), "mimeType": "image/gif"}
    line = "[image/gif 3x5 13 bytes: use --save DIR or -o FILE]\n"
    said = {"type": "text", "text": json.dumps(STRUCTURED)}

    assert printed({"content": [picture], "structuredContent": STRUCTURED}).stdout == line + PRETTY
    assert printed({"content": [said, picture], "structuredContent": STRUCTURED}).stdout == f"{said['text']}\n{line}"


def test_a_tools_error_is_a_result_with_its_own_exit_code():
    failed = {**text("no such file"), "isError": True}

    assert printed(failed) == Output(5, "no such file\n", "error: tool 'create' of 'github' reported an error\n")
    assert printed(failed, quiet=True) == Output(5, "no such file\n", "")
    assert printed({**failed, "isError": False}).exit == 0
    assert printed({**failed, "isError": "true"}).exit == 0


def test_json_is_the_result_untouched_in_one_line():
    result = b'{"content":[\n{"type":"text","text":"a\\nb\\u00e9"}],"isError" : true,"n":1.0,"big":12345678901234567890123}\n'

    assert printed(result, as_json=True, columns=80) == Output(5, result.decode().replace("\n", " ") + "\n", "")


VIEW = {"bytes": 5_000_000, "shown": 32768, "truncated": True, "offset": 0, "handle": "r1a2", "nextOffset": 32768}


@pytest.mark.parametrize(
    ("view", "note"),
    [
        (VIEW, "shown 32768 of 5000000 bytes; the next part: mcpd fetch r1a2 --offset 32768\n"),
        ({**VIEW, "nextOffset": None}, "shown 32768 of 5000000 bytes; the next part: mcpd fetch r1a2 --max-bytes 5000000\n"),
        (
            {**VIEW, "handle": ""},
            "shown 32768 of 5000000 bytes; the rest is not kept: call again with --max-bytes 5000000\n",
        ),
        ({**VIEW, "truncated": False}, ""),
        ({"truncated": "yes"}, ""),
        ("odd", ""),
    ],
)
def test_what_was_cut_is_said_on_stderr(view, note):
    result = {**text("a"), "_meta": {"mcpd/view": view}}

    assert printed(result) == Output(0, "a\n", note)
    assert printed(result, quiet=True).stderr == ""
    assert printed(result, as_json=True).stderr == ""


VALUES = {
    "content": [{"type": "text", "text": "one\x1b[31m\n"}, {"type": "text", "text": "two"}],
    "structuredContent": {"items": [{"id": 7, "name": "x"}], "none": None},
}


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("structuredContent.items[0].id", "7\n"),
        ("structuredContent.items[0].name", "x\n"),
        ("structuredContent.items", '[{"id": 7, "name": "x"}]\n'),
        ("structuredContent.none", "null\n"),
        ("content[0].text", "one\x1b[31m\n"),
        ("content[-1].text", "two\n"),
    ],
)
def test_a_field_is_the_value_alone(field, expected):
    assert printed(VALUES, field=field) == Output(0, expected, "")


def test_a_field_is_cleaned_for_a_terminal_and_quoted_as_json():
    assert printed(VALUES, field="content[0].text", columns=80).stdout == "one\n"
    assert printed(VALUES, field="structuredContent.items[0].name", as_json=True).stdout == '"x"\n'


def test_a_missing_field_says_what_there_is():
    assert printed(VALUES, field="structuredContent.item") == Output(
        2,
        "",
        "error: the result has no structuredContent.item\n  structuredContent has items and none; did you mean items?\n",
    )


def test_a_field_of_a_cut_result_may_be_in_the_rest():
    cut = {**VALUES, "_meta": {"mcpd/view": VIEW}}

    assert "call again with --max-bytes 5000000" in printed(cut, field="structuredContent.x").stderr
    assert printed(cut, field="content[1].text").stderr.startswith("shown 32768 of")
    assert printed(cut, field="structuredContent.items").stderr == ""


def test_the_complaint_of_a_tool_is_not_taken_for_the_field():
    failed = {**text("one", "two\n\n", "x\n" * 9), "isError": True}

    assert printed(failed, field="structuredContent.id") == Output(
        5, "", "error: tool 'create' of 'github' reported an error\n  one\n  two\n  x\n  x\n  x\n  …\n"
    )
    assert printed(failed, field="content[0].text") == Output(5, "one\n", "")


@pytest.mark.parametrize("result", [b"[]", b"null", b"{", b'{"content":{}}', b'{"content":"x"}'])
def test_what_is_no_result_is_an_error_of_the_server(result):
    with pytest.raises(ServerProtocol):
        printed(result)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.sampled_from(["type", "text", "data", "uri"]), inner, max_size=4)
    ),
    max_leaves=10,
)
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "x"])},
    optional=dict.fromkeys(("text", "data", "mimeType", "uri", "name", "size", "resource"), json_values),
)


@given(st.lists(blocks | json_values), json_values, json_values, st.none() | st.just(80))
def test_any_content_can_be_printed(content, structured, meta, columns):
    output = printed({"content": content, "structuredContent": structured, "_meta": meta}, columns=columns)

    assert output.exit == 0
    assert output.stdout == "" or output.stdout.endswith("\n")


@given(
    st.binary(max_size=60),
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff\xc0", b"\xff\xd8\xff\xff"]),
)
def test_any_picture_has_a_line(content, start):
    block = {"type": "image", "data": encoded(start + content), "mimeType": "image/x"}

    assert printed({"content": [block]}).stdout.startswith("[image/x ")
