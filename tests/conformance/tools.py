"""The tools that the conformance suite looks for, by the names that it knows; the docstring is the description."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shapes import IMAGE, ROOTS, WAV, Failed, Json, elicitation, question, resource, sampling, text

if TYPE_CHECKING:
    from fixture import Call

# The suite wants to see that messages come while a tool works.
STEP_SECONDS = 0.02

changes: Counter[str] = Counter()


@dataclass
class Tool:
    description: str
    run: Callable[..., list[Json]]
    schema: Json


TOOLS: dict[str, Tool] = {}


def tool(*required: str, schema: Json | None = None, name: str = "") -> Callable[..., Callable[..., list[Json]]]:
    """Offer a function as a tool; `required` are the names of its arguments, which are texts."""
    given = schema or {"type": "object", "properties": {each: {"type": "string"} for each in required}}
    if required:
        given = {**given, "required": [*required]}

    def register(function: Callable[..., list[Json]]) -> Callable[..., list[Json]]:
        TOOLS[name or function.__name__] = Tool(str(function.__doc__), function, given)
        return function

    return register


def tools() -> list[Json]:
    """Return the descriptors, as they are after the last change."""
    found = [
        {"name": name, "description": each.description, "inputSchema": each.schema} for name, each in TOOLS.items()
    ]
    found[-1]["description"] = f"Changed {changes['tool']} times."
    return found


@tool()
def test_simple_text(call: Call) -> list[Json]:
    """Give a text."""
    return [text("This is a simple text response for testing.")]


@tool()
def test_image_content(call: Call) -> list[Json]:
    """Give an image."""
    return [IMAGE]


@tool()
def test_audio_content(call: Call) -> list[Json]:
    """Give a sound."""
    return [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]


@tool()
def test_embedded_resource(call: Call) -> list[Json]:
    """Give a resource."""
    return [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@tool()
def test_multiple_content_types(call: Call) -> list[Json]:
    """Give a text, an image and a resource."""
    mixed = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return [text("Multiple content types test:"), IMAGE, mixed]


@tool()
def test_tool_with_logging(call: Call) -> list[Json]:
    """Log three messages."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        call.log("info", message)
        time.sleep(STEP_SECONDS)
    return [text("logged")]


@tool()
def test_logging_tool(call: Call) -> list[Json]:
    """Log one message, if it is wanted."""
    call.log("error", "this is logged")
    return [text("logged")]


@tool()
def test_tool_with_progress(call: Call) -> list[Json]:
    """Report progress three times."""
    for done in (0, 50, 100):
        call.progress(done, 100)
        time.sleep(STEP_SECONDS)
    return [text("done")]


@tool()
def test_error_handling(call: Call) -> list[Json]:
    """Fail."""
    raise Failed("This tool intentionally returns an error for testing")


@tool("prompt")
def test_sampling(call: Call, prompt: str) -> list[Json]:
    """Have the client's model say something."""
    said = call.ask({"said": sampling(prompt)})["said"]
    return [text(f"LLM response: {said['content']['text']}")]


def _told(call: Call, asked: tuple[str, Json], before: str) -> list[Json]:
    said = call.ask({"asked": asked})["asked"]
    return [text(f"{before}: action={said['action']}, content={json.dumps(said.get('content', {}))}")]


@tool("message")
def test_elicitation(call: Call, message: str) -> list[Json]:
    """Ask the user with a form."""
    properties = {name: {"type": "string", "description": name} for name in ("username", "email")}
    return _told(call, elicitation(message, properties, ("username", "email")), "User response")


@tool()
def test_elicitation_sep1034_defaults(call: Call) -> list[Json]:
    """Ask with a form that has defaults."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return _told(call, elicitation("Who are you?", properties), "Elicitation completed")


@tool()
def test_elicitation_sep1330_enums(call: Call) -> list[Json]:
    """Ask with a form that has all kinds of choices."""
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return _told(call, elicitation("What do you choose?", properties), "Elicitation completed")


@tool()
def test_missing_capability(call: Call) -> list[Json]:
    """Need a client that can sample."""
    return test_sampling(call, "Say something.")


@tool()
def test_streaming_elicitation(call: Call) -> list[Json]:
    """Report progress, then ask."""
    call.progress(1, 2)
    return _told(call, question("Go on?", "ok", "boolean"), "Elicitation completed")


@tool()
def test_trigger_tool_change(call: Call) -> list[Json]:
    """Change the list of tools."""
    changes["tool"] += 1
    call.server.changed("toolsListChanged")
    return [text("changed")]


@tool()
def test_trigger_prompt_change(call: Call) -> list[Json]:
    """Change the list of prompts."""
    changes["prompt"] += 1
    call.server.changed("promptsListChanged")
    return [text("changed")]


@tool()
def test_input_required_result_elicitation(call: Call) -> list[Json]:
    """Ask for a name."""
    said = call.ask({"user_name": question("What is your name?", "name")})["user_name"]
    return [text(f"Hello, {said.get('content', {}).get('name')}!")]


@tool()
def test_input_required_result_sampling(call: Call) -> list[Json]:
    """Have the client's model say something."""
    said = call.ask({"capital_question": sampling("What is the capital of France?")})["capital_question"]
    return [text(said["content"]["text"])]


@tool()
def test_input_required_result_list_roots(call: Call) -> list[Json]:
    """Ask for the roots."""
    return [text(json.dumps(call.ask({"client_roots": ROOTS})["client_roots"]))]


@tool()
def test_input_required_result_request_state(call: Call) -> list[Json]:
    """Ask, and let the client keep a state meanwhile."""
    call.ask({"confirm": question("Please confirm", "ok", "boolean")}, keep=True)
    return [text("state-ok")]


@tool()
def test_input_required_result_tampered_state(call: Call) -> list[Json]:
    """Ask, and refuse a state that is not as it was."""
    return test_input_required_result_request_state(call)


@tool()
def test_input_required_result_multiple_inputs(call: Call) -> list[Json]:
    """Ask three things at once."""
    asked = {"user_name": question("What is your name?", "name"), "greeting": sampling("Generate a greeting")}
    return [text(json.dumps(call.ask({**asked, "client_roots": ROOTS}, keep=True)))]


@tool()
def test_input_required_result_multi_round(call: Call) -> list[Json]:
    """Ask one thing after the other."""
    first = call.ask({"step1": question("Step 1: What is your name?", "name")}, keep=True)
    second = call.ask({"step2": question("Step 2: What is your favorite color?", "color")}, keep=True)
    return [text(json.dumps([first, second]))]


@tool()
def test_input_required_result_capabilities(call: Call) -> list[Json]:
    """Ask what the client can be asked, and nothing else."""
    asked = {
        "user_name": ("elicitation", question("What is your name?", "name")),
        "greeting": ("sampling", sampling("Generate a greeting")),
    }
    return [text(json.dumps(call.ask({key: each for key, (need, each) in asked.items() if call.can(need)})))]


SCHEMA: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool(schema=SCHEMA, name="json_schema_2020_12_tool")
def json_schema(call: Call, **arguments: object) -> list[Json]:
    """Have a schema with much in it."""
    return [text(json.dumps(arguments))]


@tool()
def test_changing(call: Call) -> list[Json]:
    """Be described in another way after each change."""
    return [text(str(changes["tool"]))]
