"""What a client asks of one upstream: the `params` of mcpd/call, read, prompt and complete.

Spec: tools/call, resources/read, prompts/get and completion/complete of all revisions; bodies stay the
bytes that came.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import Raw, Struct

from mcpd.protocol.bounding import Shape
from mcpd.protocol.jsonrpc import ABSENT

# The view that a client gets unless it asks for another.
VIEW_BYTES = 32 * 1024


class Request(Struct, gc=False, kw_only=True):
    """What all of them have.

    `timeout` is in seconds and counts from when it is sent; `max_bytes` bounds what is shown of the result.
    """

    server: str
    timeout: float | None = None
    max_bytes: int = VIEW_BYTES
    meta: dict[str, Raw] | None = msgspec.field(name="_meta", default=None)

    method: ClassVar[bytes] = b""
    # What errors call it, the command for it, and how its result is cut; None: it is short by its specification.
    noun: ClassVar[str] = ""
    command: ClassVar[str] = ""
    shape: ClassVar[Shape | None] = None

    @property
    def what(self) -> str:
        """The name of what is asked for."""
        raise NotImplementedError

    def params(self) -> bytes:
        """Return the `params` for the upstream as JSON, without `_meta`."""
        raise NotImplementedError

    def drop(self) -> None:
        """Let go of what is large; it is over."""


class ToolRequest(Request):
    """`params` of mcpd/call."""

    tool: str
    arguments: Raw = Raw(b"{}")

    method: ClassVar[bytes] = b'"tools/call"'
    noun: ClassVar[str] = "tool"
    command: ClassVar[str] = "call"
    shape: ClassVar[Shape | None] = "call"

    @property
    def what(self) -> str:
        """The tool's name."""
        return self.tool

    def params(self) -> bytes:
        """Return name and arguments."""
        return b'{"name":%b,"arguments":%b}' % (msgspec.json.encode(self.tool), bytes(self.arguments))

    def drop(self) -> None:
        """Let go of the arguments."""
        self.arguments = Raw(b"{}")


class ReadRequest(Request):
    """`params` of mcpd/read."""

    uri: str

    method: ClassVar[bytes] = b'"resources/read"'
    noun: ClassVar[str] = "resource"
    command: ClassVar[str] = "read"
    shape: ClassVar[Shape | None] = "read"

    @property
    def what(self) -> str:
        """The resource's URI."""
        return self.uri

    def params(self) -> bytes:
        """Return the URI."""
        return b'{"uri":%b}' % msgspec.json.encode(self.uri)


class PromptRequest(Request):
    """`params` of mcpd/prompt; the values of `arguments` are strings."""

    name: str
    arguments: Raw = ABSENT

    method: ClassVar[bytes] = b'"prompts/get"'
    noun: ClassVar[str] = "prompt"
    command: ClassVar[str] = "prompt"
    shape: ClassVar[Shape | None] = "prompt"

    @property
    def what(self) -> str:
        """The prompt's name."""
        return self.name

    def params(self) -> bytes:
        """Return name and arguments."""
        name = msgspec.json.encode(self.name)
        if bytes(self.arguments) in (b"", b"null"):
            return b'{"name":%b}' % name
        return b'{"name":%b,"arguments":%b}' % (name, bytes(self.arguments))


class CompleteRequest(Request):
    """`params` of mcpd/complete."""

    ref: Raw
    argument: Raw
    context: Raw = ABSENT

    method: ClassVar[bytes] = b'"completion/complete"'
    noun: ClassVar[str] = "completion"
    command: ClassVar[str] = "complete"

    @property
    def what(self) -> str:
        """Nothing has a name here."""
        return "completion"

    def params(self) -> bytes:
        """Return reference, argument and context as they came."""
        body = b'{"ref":%b,"argument":%b' % (bytes(self.ref), bytes(self.argument))
        return body + (b',"context":%b}' % bytes(self.context) if self.context else b"}")
