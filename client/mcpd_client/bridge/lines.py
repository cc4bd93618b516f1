"""What a bridge must know of a JSON-RPC line: its id, its method, and what kind of message it is.

A large line is not parsed: the members that matter stand before the first object in it, or at its very
end. The parser is the C scanner alone; the package `json` costs more memory than all the rest of a bridge.
"""

from _json import encode_basestring_ascii, make_scanner, scanstring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

REQUEST = "request"
NOTIFICATION = "notification"
ANSWER = "answer"
BATCH = "batch"
OTHER = "other"

# Up to this size to parse everything is as cheap as to look for a few members.
WHOLE_BYTES = 4096
# What the head and the tail of a large line are looked for in.
EDGE_BYTES = 1024
BLANKS = " \t\r\n"
# How the scanner says that something is not JSON; SystemError is its own error where `json` has not been imported.
NOT_JSON = (ValueError, StopIteration, SystemError, RecursionError)


class _Rules:
    """What the scanner asks for; lenient, since a bridge is no judge of what it carries."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_scan = make_scanner(_Rules)  # type: ignore[arg-type]  # any object with these attributes


class Message:
    """One line.

    Attributes:
        kind: one of the constants above.
        id: a string or a number where there is one, else None.
        method: of a request or a notification.
        is_error: whether an answer is one.
        params: where the whole line has been parsed; else None.
        items: the messages of a batch.
    """

    __slots__ = ("id", "is_error", "items", "kind", "method", "params")

    def __init__(self, members: "dict[str, Any]") -> None:
        request_id, method = members.get("id"), members.get("method")
        self.id: str | int | float | None = request_id if is_id(request_id) else None
        self.method: str = method if isinstance(method, str) else ""
        self.params: Any = members.get("params")
        self.is_error = "error" in members
        self.items: list[Message] = []
        if self.method:
            self.kind = REQUEST if self.id is not None else OTHER if "id" in members else NOTIFICATION
        else:
            self.kind = ANSWER if self.id is not None and ("result" in members or self.is_error) else OTHER


def look(line: bytes) -> Message:
    """Tell what a line is, its line end included or not; never fails: what cannot be read is of kind `other`."""
    if len(line) > WHOLE_BYTES and (members := _edges(line)) is not None:
        return Message(members)
    value = parse(line)
    if isinstance(value, dict):
        return Message(value)
    message = Message({})
    if isinstance(value, list):
        message.kind = BATCH
        message.items = [Message(item) for item in value if isinstance(item, dict)]
    return message


def look_at_ends(line: bytes) -> Message:
    """Tell what a line is of which only the beginning and the end are left; of kind `other` if they do not say."""
    return Message(_edges(line) or {})


def parse(line: bytes) -> "Any":
    """Return the value of a whole line, None if it is not JSON."""
    try:
        text = line.decode().strip(BLANKS)
        value, end = _scan(text, 0)
    except NOT_JSON:
        return None
    return value if end == len(text) else None


def named_method(line: bytes) -> "Any":
    """Return the method of a whole line, whatever it takes to find it; None if there is none."""
    value = parse(line)
    return value.get("method") if isinstance(value, dict) else None


def raw_params(line: bytes) -> str:
    """Return the text of a request's parameters as it stands there, `{}` if there are none."""
    try:
        text = line.decode()
        return _member_text(text, "params")
    except NOT_JSON:
        return "{}"


def is_id(value: object) -> bool:
    """Tell whether something can be the id of a request that gets an answer; also what only JSON-RPC allows."""
    if isinstance(value, float):
        return value - value == 0
    return isinstance(value, str | int) and not isinstance(value, bool)


def key_of(request_id: object) -> str:
    """Return the key of an id: 7, "7" and 7.0 are three ids."""
    return repr(request_id)


def text_of(value: object) -> str:
    """Return a string or a number as JSON."""
    return encode_basestring_ascii(value) if isinstance(value, str) else repr(value)


def request_line(request_id: str, method: str, params: str) -> bytes:
    """Return a request; `params` is JSON."""
    head = f'{{"jsonrpc":"2.0","id":{text_of(request_id)},"method":{text_of(method)}'
    return f'{head},"params":{params}}}\n'.encode("utf-8", "replace")


def notification_line(method: str, params: str = "") -> bytes:
    """Return a notification; `params` is JSON or nothing."""
    more = f',"params":{params}' if params else ""
    return f'{{"jsonrpc":"2.0","method":{text_of(method)}{more}}}\n'.encode()


def result_line(request_id: object, result: str) -> bytes:
    """Return an answer; `result` is JSON."""
    return f'{{"jsonrpc":"2.0","id":{text_of(request_id)},"result":{result}}}\n'.encode()


def error_line(request_id: object, code: int, message: str, data: "Mapping[str, str | bool | None]") -> bytes:
    """Return an error; members of `data` that are None are left out. Without an id it is null."""
    members = [f"{text_of(name)}:{_scalar(value)}" for name, value in data.items() if value is not None]
    shown = "null" if request_id is None else text_of(request_id)
    error = f'{{"code":{code},"message":{text_of(message)},"data":{{{",".join(members)}}}}}'
    return f'{{"jsonrpc":"2.0","id":{shown},"error":{error}}}\n'.encode()


def _scalar(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else text_of(value)


def _member_text(text: str, wanted: str) -> str:
    """Return the text of a member of an object, `{}` if there is none; raises one of `NOT_JSON`."""
    position = _after_blanks(text, 0)
    if text[position : position + 1] != "{":
        return "{}"
    while True:
        position = _after_blanks(text, position + 1)
        if text[position : position + 1] != '"':
            return "{}"
        name, position = scanstring(text, position + 1, False)
        start = _after_blanks(text, text.index(":", position) + 1)
        _, end = _scan(text, start)
        if name == wanted:
            return text[start:end]
        position = _after_blanks(text, end)
        if text[position : position + 1] != ",":
            return "{}"


def _edges(line: bytes) -> "dict[str, Any] | None":
    """Return what a large line says before its first object and at its end; None if that is not enough to be sure."""
    members, nested = _head(line[:EDGE_BYTES].decode("utf-8", "replace"))
    if nested not in ("params", "result", "error"):
        return None
    members[nested] = None
    if "id" not in members:
        last = _tail(line[-EDGE_BYTES:].decode("utf-8", "replace").rstrip(BLANKS))
        if last is None:
            return None
        members["id"] = last
    return members if ("method" in members) == (nested == "params") else None


def _head(text: str) -> "tuple[dict[str, Any], str]":
    """Return the members before the first that is an object or a list, and the name of that one."""
    members: dict[str, Any] = {}
    position = _after_blanks(text, 0)
    try:
        if text[position] != "{":
            return members, ""
        while True:
            position = _after_blanks(text, text.index('"', position + 1) + 1)
            name, position = scanstring(text, position, False)
            position = _after_blanks(text, text.index(":", position) + 1)
            if text[position] in "{[":
                return members, name
            members[name], position = _scan(text, position)
    except (*NOT_JSON, IndexError):
        return members, ""


def _tail(text: str) -> "Any":
    """Return the id if it is the last member, or the last but `jsonrpc`; else None.

    The line's last brace closes the outermost object. Seen from there, a quote that no backslash precedes ends
    or begins a string, so that what is found is a member of that object and not the content of a string.
    """
    place = text.rfind('"id":')
    if place < 0 or not text[:place].rstrip(BLANKS).endswith(","):
        return None
    try:
        value, end = _scan(text, _after_blanks(text, place + len('"id":')))
    except NOT_JSON:
        return None
    rest = text[end:].replace(" ", "")
    return value if rest in ("}", ',"jsonrpc":"2.0"}') else None


def _after_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in BLANKS:
        position += 1
    return position
