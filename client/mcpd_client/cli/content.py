"""The content of a result, whichever kind it is: its text, and the bytes of its pictures, sounds and files."""

from __future__ import annotations

import base64
import binascii
import json
import os

from mcpd_client.errors import ClientError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# MIME type to the end of a file's name, where the type alone would make an odd one.
ENDINGS = {
    "image/jpeg": "jpg",
    "image/svg+xml": "svg",
    "audio/mpeg": "mp3",
    "audio/x-wav": "wav",
    "text/plain": "txt",
    "text/markdown": "md",
    "text/javascript": "js",
    "application/octet-stream": "bin",
}


class Attachment:
    """Something in a result that is a file rather than text to print."""

    __slots__ = ("content", "mime_type")

    def __init__(self, mime_type: str, content: bytes) -> None:
        self.mime_type = mime_type
        self.content = content

    def ending(self) -> str:
        """Return how the name of a file with this ends, without the dot."""
        kind = self.mime_type.partition(";")[0].strip().lower()
        ending = ENDINGS.get(kind) or kind.rpartition("/")[2].partition("+")[0]
        # The type comes from a server: it must not lead out of a directory.
        return ending if ending.isascii() and ending.isalnum() else "bin"


def blocks_of(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the content blocks of a tool's result, of what was read, or of a prompt's messages."""
    if "contents" in result:
        return [{"type": "resource", "resource": item} for item in result["contents"]]
    if "messages" in result:
        return [block if isinstance(block := message.get("content"), dict) else {} for message in result["messages"]]
    blocks: list[Mapping[str, Any]] = result.get("content", [])
    return blocks


def text_of(result: Mapping[str, Any]) -> str:
    """Return the text of a result, its blocks one after the other; structured content if there is no text."""
    texts = [text for item in blocks_of(result) if (text := text_in(item)) is not None]
    if not texts and result.get("structuredContent") is not None:
        return json.dumps(result["structuredContent"], ensure_ascii=False, indent=2)
    return "\n".join(texts) if len(texts) > 1 else "".join(texts)


def reading_of(result: Mapping[str, Any]) -> str:
    """Return the text of a result, and structured content behind it unless a text says the same."""
    said, structured = text_of(result), result.get("structuredContent")
    texts = [text for item in blocks_of(result) if (text := text_in(item)) is not None]
    if structured is None or not texts or any(_says(text, structured) for text in texts):
        return said
    end = "" if said.endswith("\n") or not said else "\n"
    return f"{said}{end}{json.dumps(structured, ensure_ascii=False, indent=2)}"


def _says(text: str, value: object) -> bool:
    """Tell whether a text is a value as JSON, or what a server has wrapped into an object's only member."""
    wanted = [value, *(value.values() if isinstance(value, dict) and len(value) == 1 else ())]
    try:
        # Compared as they are written: 1, 1.0 and true are three things.
        said = json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text in wanted[1:]
    return text in wanted[1:] or any(said == json.dumps(each, sort_keys=True) for each in wanted)


def text_in(item: Mapping[str, Any]) -> str | None:
    """Return the text of a block; None if it is no text."""
    if item.get("type") == "text":
        return str(item.get("text", ""))
    resource = item.get("resource")
    if item.get("type") == "resource" and isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    return None


def attachments(result: Mapping[str, Any]) -> Iterator[Attachment]:
    """Yield what is not text.

    Raises:
        ClientError: a server's base64 is none.
    """
    for item in blocks_of(result):
        inner = item.get("resource") if item.get("type") == "resource" else item
        if not isinstance(inner, dict):
            continue
        encoded = inner.get("blob", inner.get("data"))
        if isinstance(encoded, str):
            yield Attachment(str(inner.get("mimeType") or "application/octet-stream"), _decode(encoded))


def describe(item: Mapping[str, Any]) -> str | None:
    """Return a line about an item that is not text; None for text."""
    if text_in(item) is not None:
        return None
    if item.get("type") == "resource_link":
        return f"[{item.get('uri')} ({item.get('name')}, {item.get('mimeType', 'unknown type')})]"
    inner = item.get("resource") if item.get("type") == "resource" else item
    encoded = inner.get("blob", inner.get("data", "")) if isinstance(inner, dict) else ""
    kind = inner.get("mimeType") if isinstance(inner, dict) else None
    return f"[{kind or item.get('type')}, {len(str(encoded)) * 3 // 4} bytes]"


def write_new(directory: str, stem: str, attachment: Attachment) -> str:
    """Write an attachment to a new file in `directory` and return its path; nothing is overwritten."""
    number = 1
    while True:
        path = os.path.join(directory, f"{stem}-{number}.{attachment.ending()}")
        try:
            with open(path, "xb") as file:
                file.write(attachment.content)
        except FileExistsError:
            number += 1
        else:
            return path


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ClientError("the server sent content that is not base64") from None
