import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.downstream.cli.arguments import build
from mcpd.downstream.cli.commandline import CallCommand
from mcpd.errors import BadRequest

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "maybe": {"type": ["string", "null"]},
        "optional": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "nothing": {"type": "null"},
        "either": {"type": ["integer", "null"]},
        "one": {"oneOf": [{"$ref": "#/$defs/Count"}, {"type": "boolean"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "filter": {"$ref": "#/$defs/Filter"},
        "when.at": {"type": "string"},
        "when": {"type": "object", "properties": {"at": {"type": "integer"}, "x.y": {"type": "string"}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "image": {"type": "string", "contentEncoding": "base64"},
        "any": {},
    },
    "$defs": {
        "Count": {"type": "integer"},
        "Filter": {
            "type": "object",
            "properties": {"since": {"type": "string"}, "deep": {"$ref": "#/$defs/Filter"}, "n": {"type": "integer"}},
        },
    },
}


def made(*words, schema=SCHEMA, args=None):
    command = CallCommand("github", "create", words, args=args)
    return build(command, None if schema is None else json.dumps(schema).encode(), {})


def refusal(*words):
    with pytest.raises(BadRequest) as caught:
        made(*words)
    return caught.value


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("text=a b", b'{"text":"a b"}'),
        ("text=01007", b'{"text":"01007"}'),
        ("text=true", b'{"text":"true"}'),
        ("text=[1]", b'{"text":"[1]"}'),
        ("text=", b'{"text":""}'),
        ("text=a=b:=c", b'{"text":"a=b:=c"}'),
        ('text="q"', b'{"text":"\\"q\\""}'),
        ("text=ü\n", '{"text":"ü\\n"}'.encode()),
        ("maybe=null", b'{"maybe":"null"}'),
        ("optional=5", b'{"optional":"5"}'),
        ("count=5", b'{"count":5}'),
        ("count= 5 ", b'{"count":5}'),
        ("count=-0", b'{"count":-0}'),
        ("count=1.0", b'{"count":1.0}'),
        ("count=1e3", b'{"count":1e3}'),
        ("count=9007199254740993", b'{"count":9007199254740993}'),
        ("count=123456789012345678901234567890", b'{"count":123456789012345678901234567890}'),
        ("ratio=0.10", b'{"ratio":0.10}'),
        ("count=1e400", b'{"count":1e400}'),
        ("ratio=1e400", b'{"ratio":1e400}'),
        ("flag=true", b'{"flag":true}'),
        ("nothing=null", b'{"nothing":null}'),
        ("either=null", b'{"either":null}'),
        ("either=7", b'{"either":7}'),
        ("one=false", b'{"one":false}'),
        ("one=3", b'{"one":3}'),
        ('tags=["a","b"]', b'{"tags":["a","b"]}'),
        ('filter={"since": 1}', b'{"filter":{"since": 1}}'),
    ],
)
def test_a_value_is_typed_by_the_schema(word, expected):
    assert made(word) == expected


@pytest.mark.parametrize("key", ["any", "unknown", "filter.unknown"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", '"hello"'),
        ("01007", '"01007"'),
        ("1.", '"1."'),
        ("007", '"007"'),
        ("[WIP] fix", '"[WIP] fix"'),
        ("{x", '"{x"'),
        ("nullable", '"nullable"'),
        ("True", '"True"'),
        ("-", '"-"'),
        ("", '""'),
        ('"quoted"', '"\\"quoted\\""'),
        ("1.10", "1.10"),
        ("-3", "-3"),
        ("true", "true"),
        ("null", "null"),
        ("[1,2]", "[1,2]"),
        ('{"a":1}', '{"a":1}'),
    ],
)
def test_what_the_schema_does_not_type_is_json_if_it_looks_like_it(key, text, expected):
    arguments = made(f"{key}={text}").decode()

    assert arguments.endswith(f":{expected}" + "}" * (1 + key.count(".")))


def test_without_a_schema_values_are_typed_by_their_looks():
    assert made("a=1", "b=x", "c=[1]", schema=None) == b'{"a":1,"b":"x","c":[1]}'


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("count=abc", """argument 'count' must be an integer, not "abc\""""),
        ("count=1.5", "argument 'count' must be an integer, not 1.5"),
        ("count=", """argument 'count' must be an integer, not \"\""""),
        ("count=01", """argument 'count' must be an integer, not "01\""""),
        ("ratio=NaN", """argument 'ratio' must be a number, not "NaN\""""),
        ("flag=yes", """argument 'flag' must be true or false, not "yes\""""),
        ("flag=1", "argument 'flag' must be true or false, not 1"),
        ("nothing=0", "argument 'nothing' must be null, not 0"),
        ("either=x", """argument 'either' must be an integer or null, not "x\""""),
        ("one=x", """argument 'one' must be an integer or true or false, not "x\""""),
        ("tags=bug", """argument 'tags' must be an array, not "bug\""""),
        ("filter=[]", "argument 'filter' must be an object, not []"),
        ("sizes[]=x", """argument 'sizes[]' must be an integer, not "x\""""),
        ("filter.n=x", """argument 'filter.n' must be an integer, not "x\""""),
        ("text[]=x", "argument 'text' is no array"),
    ],
)
def test_a_value_of_another_type_names_argument_type_and_value(word, message):
    problem = refusal(word)

    assert problem.message == message
    assert (problem.server, problem.hint) == ("github", "mcpd tools github.create")


def test_an_array_and_an_object_come_with_the_way_to_write_them():
    assert "tags[]=VALUE" in refusal("tags=bug").details["reason"]
    assert "filter.KEY=VALUE" in refusal("filter=x").details["reason"]


@pytest.mark.parametrize(
    "text",
    [
        "1.0",
        "9007199254740993",
        "123456789012345678901234567890",
        "1e400",
        "-0",
        '"\\u00e9"',
        '{"b":1,"a":1,"b":2}',
        "[1 , 2]",
        "null",
    ],
)
def test_json_goes_through_as_it_stands(text):
    assert made(f"text:={text}") == f'{{"text":{text}}}'.encode()
    assert made(f"a.b:={text}", schema=None) == f'{{"a":{{"b":{text}}}}}'.encode()


def test_line_ends_between_the_parts_of_json_become_spaces():
    assert made('any:={\n "a":\r\n "x\\ny"}') == b'{"any":{  "a":   "x\\ny"}}'
    assert b"\n" not in made(args='{\n"a": 1\n}', schema=None)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("any:=[bug]", "argument 'any' is no JSON: invalid character (byte 1)"),
        ("any:=", "argument 'any' is no JSON: its end is missing"),
        ("any:=[1", "argument 'any' is no JSON: its end is missing"),
        ("any:=1 2", "argument 'any' is no JSON: trailing characters (byte 3)"),
        ("any:=NaN", "argument 'any' is no JSON: invalid character (byte 0)"),
        ('any:="a\nb"', "argument 'any' is no JSON: invalid character (byte 2)"),
        ('any:="\\ud800"', "argument 'any' is no JSON: half of a surrogate pair, or the end is missing"),
        ("any:=" + "[" * 100_000, "argument 'any' is nested too deeply"),
    ],
)
def test_what_is_no_json_is_refused(word, message):
    assert refusal(word).message == message


def test_text_behind_colon_and_equals_gets_to_know_how_it_is_written():
    assert refusal("text:=bug").hint == "for text write text=bug"
    assert "quotes" in refusal("tags:=[bug]").details["reason"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
keys = st.from_regex(r"[a-z_-][a-z0-9_-]{0,9}", fullmatch=True)


@given(st.dictionaries(keys, json_values, max_size=5))
def test_json_arguments_survive(arguments):
    words = [f"{key}:={json.dumps(value)}" for key, value in arguments.items()]
    expected = {key: json.dumps(value) for key, value in arguments.items()}

    built = msgspec.json.decode(made(*words, schema=None), type=dict[str, msgspec.Raw])

    assert {key: bytes(value).decode() for key, value in built.items()} == expected


@given(st.dictionaries(keys, st.text(), max_size=5))
def test_text_arguments_survive(arguments):
    schema = {"properties": {key: {"type": "string"} for key in arguments}}
    words = [f"{key}={'@' if text.startswith('@') else ''}{text}" for key, text in arguments.items()]

    assert json.loads(made(*words, schema=schema)) == arguments
