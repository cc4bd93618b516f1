import json

import pytest

from mcpd.downstream.cli.arguments import build
from mcpd.downstream.cli.commandline import CallCommand
from mcpd.errors import BadRequest


def made(*words, schema, check=True):
    command = CallCommand("github", "create", words, check=check)
    return build(command, json.dumps(schema).encode(), {})


def refusal(*words, schema):
    with pytest.raises(BadRequest) as caught:
        made(*words, schema=schema)
    return caught.value


STRICT = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "state": {"enum": ["open", "closed"]},
        "level": {"type": "integer", "enum": [1, 2]},
        "mode": {"anyOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]},
        "labels": {"type": "array", "items": {"enum": ["bug", "idea"]}},
        "inner": {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"], "additionalProperties": False},
        "page": {"type": "integer", "default": 1},
    },
    "required": ["title", "page"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["titel=x"], "create has no argument 'titel'; did you mean 'title'?"),
        (["title=x", "zzz=1"], "create has no argument 'zzz'"),
        (["yyy=x", "zzz=1"], "create has no argument 'yyy' or 'zzz', and needs 'title'"),
        (["state=open"], "create needs 'title'"),
        (["title=x", "state=opne"], """argument 'state' must be "open" or "closed", not "opne\""""),
        (["title=x", "level=3"], "argument 'level' must be 1 or 2, not 3"),
        (["title=x", "level:=true"], "argument 'level' must be 1 or 2, not true"),
        (["title=x", "mode=c"], """argument 'mode' must be "a", "b" or null, not "c\""""),
        (["title=x", "labels[]=bug", "labels[]=bgu"], """argument 'labels' must be "bug" or "idea", not "bgu\""""),
        (["title=x", "inner.b=1"], "create needs 'inner.a'"),
        (["title=x", "inner.a=1", "inner.c=1"], "create has no argument 'inner.c'"),
        (['{"titel":1}'], "create has no argument 'titel'; did you mean 'title'?"),
        (['{"title":"x","state":"odd"}'], """argument 'state' must be "open" or "closed", not "odd\""""),
    ],
)
def test_what_the_schema_certainly_refuses_is_refused_before_the_call(words, message):
    problem = refusal(*words, schema=STRICT)

    assert problem.message == message
    assert problem.hint == "mcpd tools github.create"
    assert made(*words, schema=STRICT, check=False)


def test_what_an_open_schema_does_not_name_is_named_beside_what_is_missing():
    schema = {"properties": {"text": {}}, "required": ["text"]}

    assert refusal("txt=x", schema=schema).message == "create needs 'text'; 'txt' is none of its arguments"
    assert made("txt=x", "text=y", schema=schema)


def test_a_wrong_name_comes_with_all_that_there_are():
    reason = refusal("titel=x", schema=STRICT).details["reason"]

    assert reason == "it takes title and optionally state, level, mode, labels, inner, page"
    assert refusal("a=1", schema={"additionalProperties": False}).details["reason"] == "it takes no arguments"


@pytest.mark.parametrize(
    ("words", "schema"),
    [
        (["title=x"], STRICT),
        (["title=x", "state:=null"], STRICT),
        (["title=x", "level=1.0"], STRICT),
        (["title=x", "mode=b"], STRICT),
        (["other=x", "title=x"], {**STRICT, "additionalProperties": True}),
        (["x-a=1", "title=x"], {**STRICT, "patternProperties": {"^x-": {}}}),
        (["other=x"], {"properties": {"title": {}}}),
        (
            ["a=1", "b=2"],
            {"additionalProperties": False, "properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}}]},
        ),
        (
            ["a=1"],
            {
                "additionalProperties": False,
                "allOf": [{"$ref": "#/$defs/A"}],
                "$defs": {"A": {"properties": {"a": {}}}},
            },
        ),
        (["level=1e400"], {"properties": {"level": {"enum": [1]}}}),
    ],
)
def test_what_a_server_may_accept_is_not_refused(words, schema):
    assert made(*words, schema=schema)
