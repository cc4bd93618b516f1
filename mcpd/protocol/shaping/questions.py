"""What a server asks of a client of another era or revision, and the client's answer.

Spec: elicitation of 2025-06-18 (a flat form, no modes) and 2025-11-25; sampling of 2024-11-05 … 2025-11-25;
2026-07-28 "Multi round-trip requests". Questions of a legacy server are right as they are for a modern client, and
so are a legacy client's answers for a modern server: results inside `inputResponses` have no `resultType`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from mcpd.protocol import mcp, rawjson
from mcpd.protocol.capabilities import ELICIT, MODES_FROM, SAMPLE, mode_of
from mcpd.protocol.jsonrpc import ABSENT

from .blocks import older_block

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Sampling got tools, and messages of several blocks, with the same revision as elicitation its modes.
TOOLS_FROM = MODES_FROM


class _Field(Struct, gc=False):
    type: Raw = ABSENT
    enum: Raw = ABSENT
    one_of: Raw = msgspec.field(name="oneOf", default=ABSENT)


class _Choice(Struct, gc=False):
    const: str
    title: str | None = None


class _Message(Struct, gc=False):
    content: Raw = ABSENT


_FIELD = msgspec.json.Decoder(_Field)
_CHOICES = msgspec.json.Decoder(list[_Choice])
_MESSAGE = msgspec.json.Decoder(_Message)


def question(method: str, params: Raw, *, revision: str, elicitation_id: str | None = None) -> Raw:
    """Return the parameters of a server's question as a legacy client of `revision` may get them.

    For 2025-11-25 a visit to a URL gets the id that a client wants to see there and modern servers do not give.

    Below it a form loses its `mode`, and its schema changes as far as it must:

    * A choice with titles (`oneOf`) would be legal as a plain string, and people would have to guess what to type.
      The same choice in the words of 2025-06-18, `enum` and `enumNames`, is put beside it.
    * A choice of several (an array) is illegal. It is left out where it need not be answered; where it must be, it
      stays: a client that is lenient can still answer.
    * Defaults, and whatever else 2025-06-18 does not know, are ignored there and stay.

    Below it sampling loses `tools` and `toolChoice`, and a message of several blocks becomes several messages; audio is
    text for 2024-11-05. Everything else is the same object.

    Args:
        method: what is asked.
        params: as the server has sent them; may be empty.
        revision: what the client has negotiated; one that can be asked at all.
        elicitation_id: an id for a visit to a URL that has none.

    Raises:
        ServerProtocol: They are no object.
    """
    if method == ELICIT:
        if revision >= MODES_FROM:
            return _with_id(params, elicitation_id) if elicitation_id and mode_of(params) == "url" else params
        return _flat_form(params)
    return _plain_sampling(params, revision) if method == SAMPLE and revision < TOOLS_FROM else params


def answer_to_legacy(method: str, result: Raw, *, revision: str) -> Raw:
    """Return a client's answer as a legacy server of `revision` may get it; mostly the same object.

    A sampled message is one block there before 2025-11-25, so a list of one is taken out of it.
    """
    if method != SAMPLE or revision >= TOOLS_FROM or rawjson.kind(result) != "an object":
        return result
    blocks = _blocks(result)
    if len(blocks) != 1:
        return result
    return _with(result, content=blocks[0])


def input_required(requests: Mapping[str, tuple[str, bytes]], state: str | None, server_info: Raw) -> bytes:
    """Return an `input_required` result.

    Args:
        requests: (method, params as JSON, which may be empty) by key; may be empty if there is a state.
        state: what the client has to send back.
        server_info: who asks; may be empty.
    """
    members: dict[str, object] = {"resultType": "input_required"}
    if requests:
        members["inputRequests"] = {
            key: {"method": method, "params": Raw(params)} if params else {"method": method}
            for key, (method, params) in requests.items()
        }
    if state is not None:
        members["requestState"] = state
    if server_info:
        members["_meta"] = {mcp.META_SERVER: server_info}
    return msgspec.json.encode(members)


def _with(value: Raw, **changes: Raw) -> Raw:
    return Raw(msgspec.json.encode(rawjson.members(value, "the value") | changes))


def _with_id(params: Raw, elicitation_id: str) -> Raw:
    if rawjson.members(params, "the question").get("elicitationId"):
        return params
    return _with(params, elicitationId=Raw(msgspec.json.encode(elicitation_id)))


def _flat_form(params: Raw) -> Raw:
    members = rawjson.members(params, "the question")
    schema = members.get("requestedSchema", ABSENT)
    flat = _flat_schema(schema) if rawjson.kind(schema) == "an object" else schema
    # What is no form cannot be said at all.
    has_mode = "mode" in members and rawjson.string(members["mode"]) != "url"
    if flat is schema and not has_mode:
        return params
    if has_mode:
        del members["mode"]
    return Raw(msgspec.json.encode(members | ({"requestedSchema": flat} if flat else {})))


def _flat_schema(schema: Raw) -> Raw:
    members = rawjson.members(schema, "the schema")
    properties = members.get("properties", ABSENT)
    if rawjson.kind(properties) != "an object":
        return schema
    required = _strings(members.get("required", ABSENT))
    before = rawjson.members(properties, "the properties")
    after = {name: flat for name, field in before.items() if (flat := _flat_field(field, name in required))}
    if len(after) == len(before) and all(after[name] is field for name, field in before.items()):
        return schema
    return _with(schema, properties=Raw(msgspec.json.encode(after)))


def _flat_field(field: Raw, is_required: bool) -> Raw:
    """Return a field of a form as 2025-06-18 has it; empty if it has to be left out."""
    if rawjson.kind(field) != "an object":
        return field
    seen = rawjson.decode(_FIELD, field, "a field", "an object")
    if rawjson.string(seen.type) == "array":
        return field if is_required else ABSENT
    if rawjson.string(seen.type) != "string" or seen.enum or not (choices := _choices(seen.one_of)):
        return field
    values = Raw(msgspec.json.encode([choice.const for choice in choices]))
    names = Raw(msgspec.json.encode([choice.title or choice.const for choice in choices]))
    return _with(field, enum=values, enumNames=names)


def _choices(one_of: Raw) -> list[_Choice]:
    try:
        return _CHOICES.decode(one_of)
    except (msgspec.MsgspecError, RecursionError):
        return []


def _strings(value: Raw) -> Sequence[str | None]:
    return (
        [rawjson.string(name) for name in rawjson.elements(value, "a list")]
        if rawjson.kind(value) == "an array"
        else []
    )


def _plain_sampling(params: Raw, revision: str) -> Raw:
    members = rawjson.members(params, "the question")
    messages = members.get("messages", ABSENT)
    before = rawjson.elements(messages, "`messages`") if rawjson.kind(messages) == "an array" else []
    after = [plain for message in before for plain in _plain_messages(message, revision)]
    same = len(after) == len(before) and all(new is old for new, old in zip(after, before, strict=True))
    if same and not {"tools", "toolChoice"} & members.keys():
        return params
    kept = {name: value for name, value in members.items() if name not in ("tools", "toolChoice")}
    return Raw(msgspec.json.encode(kept if same else kept | {"messages": after}))


def _plain_messages(message: Raw, revision: str) -> Iterator[Raw]:
    """Give a message, or one for each of its blocks."""
    if rawjson.kind(message) != "an object":
        yield message
        return
    content = rawjson.decode(_MESSAGE, message, "a message", "an object").content
    for block in _blocks(message) or [content]:
        older = older_block(block, revision) if block else block
        yield message if older is content else _with(message, content=older)


def _blocks(message: Raw) -> list[Raw]:
    """Return the blocks of a message whose content is a list of them; else nothing."""
    content = rawjson.decode(_MESSAGE, message, "a message", "an object").content
    return rawjson.elements(content, "`content`") if rawjson.kind(content) == "an array" else []
