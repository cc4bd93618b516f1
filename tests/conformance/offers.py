"""What the fixture has besides its tools: prompts, resources, completions, by the names that the suite knows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shapes import IMAGE, PNG, Json, question, resource, text
from tools import changes

if TYPE_CHECKING:
    from fixture import Call

CAPABILITIES: Json = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True},
    "completions": {},
    "logging": {},
}
INSTRUCTIONS = "Everything that the conformance suite asks for."

# -- prompts -------------------------------------------------------------------------------------


@dataclass
class Prompt:
    description: str
    run: Callable[..., list[Json]]
    arguments: tuple[str, ...] = ()


def _embedded(call: Call, resourceUri: str) -> list[Json]:
    told = resource(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [told, text("Please process the embedded resource above.")]


def _asking(call: Call) -> list[Json]:
    said = call.ask({"user_context": question("What context should the prompt use?", "context")})
    return [text(json.dumps(said["user_context"].get("content")))]


PROMPTS = {
    "test_simple_prompt": Prompt("A text.", lambda call: [text("This is a simple prompt for testing.")]),
    "test_prompt_with_arguments": Prompt(
        "A text with two words in it.",
        lambda call, arg1, arg2: [text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")],
        ("arg1", "arg2"),
    ),
    "test_prompt_with_embedded_resource": Prompt("A resource.", _embedded, ("resourceUri",)),
    "test_prompt_with_image": Prompt("An image.", lambda call: [IMAGE, text("Please analyze the image above.")]),
    "test_input_required_result_prompt": Prompt("A text that needs an answer.", _asking),
}


def prompts() -> list[Json]:
    """Return the descriptors, as they are after the last change."""
    found = [
        {
            "name": name,
            "description": prompt.description,
            "arguments": [{"name": each, "required": True} for each in prompt.arguments],
        }
        for name, prompt in PROMPTS.items()
    ]
    found[0]["description"] = f"A text, changed {changes['prompt']} times."
    return found


def complete(call: Call) -> Json:
    """Complete the argument of a prompt."""
    begun = call.params["argument"]["value"]
    values = [word for word in ("testing", "tested", "other") if word.startswith(begun)]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


# -- resources -----------------------------------------------------------------------------------

RESOURCES: list[Json] = [
    {"uri": "test://static-text", "name": "A text", "mimeType": "text/plain"},
    {"uri": "test://static-binary", "name": "An image", "mimeType": "image/png"},
    {"uri": "test://watched-resource", "name": "A text that may change", "mimeType": "text/plain"},
]
TEMPLATES: list[Json] = [
    {"uriTemplate": "test://template/{id}/data", "name": "Data by number", "mimeType": "application/json"}
]


def read(uri: str) -> Json | None:
    """Return the contents of a resource, if there is one."""
    match = re.fullmatch(r"test://template/([^/]+)/data", uri)
    if match:
        told = {"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"}
        return {"mimeType": "application/json", "text": json.dumps(told)}
    return {
        "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
        "test://static-binary": {"mimeType": "image/png", "blob": PNG},
        "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
    }.get(uri)
