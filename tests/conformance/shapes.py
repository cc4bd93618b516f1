"""Content and questions, in the form that the protocol has for them."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

# One pixel, and no sound.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
WAV = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQQAAAAAAAAA"


class Failed(Exception):
    """A tool has failed, and says why in its result."""


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def resource(uri: str, kind: str, said: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}


IMAGE: Json = {"type": "image", "data": PNG, "mimeType": "image/png"}


def elicitation(message: str, properties: Json, required: tuple[str, ...] = ()) -> tuple[str, Json]:
    schema = {"type": "object", "properties": properties, **({"required": [*required]} if required else {})}
    return "elicitation/create", {"message": message, "requestedSchema": schema}


def question(message: str, name: str, kind: str = "string") -> tuple[str, Json]:
    return elicitation(message, {name: {"type": kind}}, (name,))


def sampling(prompt: str) -> tuple[str, Json]:
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    return "sampling/createMessage", {"messages": [message], "maxTokens": 100}


ROOTS: tuple[str, Json] = ("roots/list", {})
