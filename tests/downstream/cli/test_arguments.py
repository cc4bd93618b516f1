import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.downstream.cli.arguments import build, needs_schema
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
FILES = {
    "note.txt": "one\ntwo\n",
    "list.json": "[\r\n 1.0,\n 2\n]\n",
    "bad.json": "{",
    "-": "from stdin",
    "x": "@y",
    "bom.json": "\ufeff{}",
}


def made(*words, schema=SCHEMA, args=None, files=FILES, check=True):
    command = CallCommand("github", "create", words, args=args, check=check)
    return build(command, None if schema is None else json.dumps(schema).encode(), files)


def refusal(*words, **options):
    with pytest.raises(BadRequest) as caught:
        made(*words, **options)
    return caught.value


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["text=@note.txt"], b'{"text":"one\\ntwo\\n"}'),
        (["text=@-"], b'{"text":"from stdin"}'),
        (["text=@x"], b'{"text":"@y"}'),
        (["unknown=@list.json"], b'{"unknown":"[\\r\\n 1.0,\\n 2\\n]\\n"}'),
        (["sizes=@list.json"], b'{"sizes":[   1.0,  2 ]}'),
        (["any:=@list.json"], b'{"any":[   1.0,  2 ]}'),
        (["any:=@bom.json"], b'{"any":{}}'),
        (["tags[]=@note.txt", "tags[]=b"], b'{"tags":["one\\ntwo\\n","b"]}'),
        (["text=@@x"], b'{"text":"@x"}'),
        (["text=@@@x"], b'{"text":"@@x"}'),
        (["text=a@x"], b'{"text":"a@x"}'),
        (["image=@x"], b'{"image":"QHk="}'),
    ],
)
def test_a_value_comes_from_a_file_of_the_client(words, expected):
    assert made(*words) == expected


def test_a_binary_file_is_encoded_where_the_schema_wants_that():
    assert made("image=@p.png", files={"p.png": b"\x89PNG"}) == b'{"image":"iVBORw=="}'
    assert refusal("text=@p.png", files={"p.png": b"\x89PNG"}).message == "the file 'p.png' is no text in UTF-8"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("text=@gone", "the file 'gone' did not come with the request"),
        ("text=@", "@ needs the name of a file, or - for the standard input"),
        ("any:=@bad.json", "the file 'bad.json' is no JSON: its end is missing"),
        ("any:=@-", "the standard input is no JSON: invalid character (byte 1)"),
    ],
)
def test_a_file_that_does_not_do_is_named(word, message):
    assert refusal(word).message == message


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tags[]=01", "tags[]=b"], b'{"tags":["01","b"]}'),
        (["sizes[]=1", "text=x", "sizes[]=2"], b'{"sizes":[1,2],"text":"x"}'),
        (["any[]:=[1]"], b'{"any":[[1]]}'),
        (["filter.tags[]=a"], b'{"filter":{"tags":["a"]}}'),
        (
            ["filter.since=2020", "filter.deep.n=5", "filter.deep.deep.since=1"],
            b'{"filter":{"since":"2020","deep":{"n":5,"deep":{"since":"1"}}}}',
        ),
        (["when.at=5"], b'{"when.at":"5"}'),
        (["when.x.y=5"], b'{"when":{"x.y":"5"}}'),
        (["when.z.y=5"], b'{"when":{"z":{"y":5}}}'),
        (["labels.env=1"], b'{"labels":{"env":"1"}}'),
        (["a.b.c=x", "a.d=y"], b'{"a":{"b":{"c":"x"},"d":"y"}}'),
    ],
)
def test_dots_go_into_objects_and_brackets_append(words, expected):
    assert made(*words) == expected


def test_a_property_may_have_brackets_in_its_name():
    schema = {"properties": {"ids[]": {"type": "array"}, "a[].b": {"type": "string"}, "x.y": {"type": "array"}}}

    assert made("ids[]=[1]", "a[].b=1", "x.y[]=1", schema=schema) == b'{"ids[]":[1],"a[].b":"1","x.y":[1]}'


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["text=a", "text=b"], "argument 'text' is given twice"),
        (["a.b=1", "a.b=2"], "argument 'a.b' is given twice"),
        (["a=1", "a.b=2"], "argument 'a.b' is given twice"),
        (["a.b=1", "a=2"], "argument 'a' is given twice"),
        (["a[]=1", "a=2"], "argument 'a' is given twice"),
        (["a:=[]", "a[]=2"], "argument 'a' is given twice"),
        (["a[]=1", "a.b=2"], "argument 'a.b' is given twice"),
        (["hello"], "'hello' is no argument"),
        (["-"], "'-' is no argument"),
        (["=x"], "'=x' has no key before its ="),
        ([":=1"], "':=1' has no key before its ="),
        (["[]=1"], "the only argument is no JSON: trailing characters (byte 3)"),
        (["a=1", "[]=1"], "'[]=1' has no key before its ="),
        (["a..b=1"], "the key 'a..b' cannot be read"),
        (["a.=1"], "the key 'a.' cannot be read"),
        ([".a=1"], "the key '.a' cannot be read"),
        (["a[].b=1"], "the key 'a[].b' cannot be read"),
        (["a[][]=1"], "the key 'a[][]' cannot be read"),
        (["a.[]=1"], "the key 'a.[]' cannot be read"),
        (['{"a":1}', "b=2"], "an object must be the only argument"),
        (["x" * 1001 + "=1"], f"the key '{'x' * 59}…' has more than 1000 characters"),
        ([".".join("a" * 33) + "=1"], f"the key '{'a.' * 29}a…' has more than 32 parts"),
    ],
)
def test_words_that_make_no_object_are_refused(words, message):
    problem = refusal(*words, schema=None)

    assert problem.message == message
    assert problem.hint == "mcpd tools github.create"


@pytest.mark.parametrize(
    ("words", "args", "expected"),
    [
        ([], None, b"{}"),
        (['{"a": 1.0}'], None, b'{"a": 1.0}'),
        ([' {"a":1}\n'], None, b'{"a":1}'),
        ([], '{"a":1,"a":2}', b'{"a":1,"a":2}'),
        ([], "@o.json", b'{ "n": 123456789012345678901234567890 }'),
        ([], "-", b'{"from":"stdin"}'),
        ([], "@-", b'{"from":"stdin"}'),
        (["b=x"], '{"a":1.0}', b'{"a":1.0,"b":"x"}'),
    ],
)
def test_the_whole_object_can_be_given(words, args, expected):
    files = {"o.json": '{\n"n": 123456789012345678901234567890\n}', "-": '{"from":"stdin"}'}

    assert made(*words, args=args, files=files, schema=None) == expected


@pytest.mark.parametrize(
    ("words", "args", "message"),
    [
        (["[1]"], None, "the only argument must be an object, not an array"),
        (['"x"'], None, "the only argument must be an object, not a string"),
        ([], "5", "--args must be an object, not a number"),
        ([], "null", "--args must be an object, not null"),
        ([], "", "--args is no JSON: its end is missing"),
        ([], "@list.json", "the file 'list.json' must be an object, not an array"),
        ([], "@gone", "the file 'gone' did not come with the request"),
        ([], "@", "@ needs the name of a file, or - for the standard input"),
        (["{}"], "{}", "the whole object is given twice, as a word and with --args"),
        (["a=1"], '{"a":2}', "argument 'a' is given twice"),
        (["a.b=1"], '{"a":{}}', "argument 'a.b' is given twice"),
    ],
)
def test_what_is_no_object_is_refused(words, args, message):
    assert refusal(*words, args=args, schema=None).message == message


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], False),
        (["a=1"], True),
        (["a[]=1"], True),
        (["a[]:=1"], True),
        (["a.b:=1"], True),
        (["a=@f"], True),
        (["a:=1"], False),
        (["a:=1", "b:=@f"], False),
        (["a:=1", "b=2"], True),
        (['{"a":1}'], False),
    ],
)
def test_only_what_is_typed_by_it_needs_the_schema(words, expected):
    assert needs_schema(CallCommand("s", "t", tuple(words))) is expected


def test_a_word_that_is_no_argument_is_refused_before_anything_is_asked():
    with pytest.raises(BadRequest) as caught:
        needs_schema(CallCommand("s", "t", ("hello",)))

    assert (caught.value.server, caught.value.hint) == ("s", "mcpd tools s.t")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.text() | st.from_regex(r"[ab.\[\]]{1,4}:?=[@ab1{\"]{0,3}", fullmatch=True)), json_values)
def test_any_words_and_any_schema_give_one_line_of_an_object_or_a_refusal(words, schema):
    try:
        arguments = made(*words, schema=schema)
    except BadRequest as problem:
        arguments = msgspec.json.encode({"refused": problem.message})

    assert b"\n" not in arguments
    assert isinstance(json.loads(arguments), dict)
