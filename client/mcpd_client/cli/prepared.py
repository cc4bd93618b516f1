"""`--elicit`: what a command answers to questions of servers when nobody is there to be asked."""

from __future__ import annotations

import json
from shlex import quote

from mcpd_client.cli.questions import CAPABILITIES, INVALID_PARAMS, asker_name, mode_of
from mcpd_client.elicit import Field, check, fill_defaults
from mcpd_client.errors import RequestRefused, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcpd_client.waiting import ServerRequest

FORM_ONLY: Mapping[str, Any] = {"elicitation": {"form": {}}}
WORDS = "accept-defaults, decline, a JSON object or @FILE"


class PreparedAnswer:
    """Answers every question in the same way; give it to a request as its `on_request`.

    Args:
        content: what to fill in besides the defaults of a form; None declines every question.

    Attributes:
        problem: why the first question was cancelled to which this is no answer.
    """

    def __init__(self, content: Mapping[str, Any] | None) -> None:
        self._content = content
        self.problem: UsageError | None = None

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What to declare: nobody can consent to opening a page beforehand, but it can be declined."""
        return CAPABILITIES if self._content is None else FORM_ONLY

    def __call__(self, request: ServerRequest) -> Mapping[str, Any]:
        """Return the answer; what does not fit the form cancels the question, and `problem` says why.

        Raises:
            RequestRefused: it is something else than a question that this can answer.
        """
        mode = mode_of(request)
        if self._content is None:
            return {"action": "decline"}
        if mode != "form":
            raise RequestRefused("this client was not asked to open pages", code=INVALID_PARAMS)
        schema = request.params.get("requestedSchema")
        content = {**fill_defaults(schema), **self._content}
        if (problem := check(schema, content)) is not None:
            self.problem = self.problem or UsageError(
                f"--elicit does not answer the question of {asker_name(request)}: {problem}",
                reason="the question was cancelled; the call may have run",
                hint=f"write --elicit {quote(json.dumps(_sketch(schema, content), ensure_ascii=False))}",
            )
            return {"action": "cancel"}
        return {"action": "accept", "content": content}


def prepare(text: str) -> PreparedAnswer:
    """Return what answers as the value of `--elicit` says.

    Raises:
        UsageError: it says nothing of that kind.
    """
    if text == "decline":
        return PreparedAnswer(None)
    if text == "accept-defaults":
        return PreparedAnswer({})
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise UsageError(f"--elicit takes {WORDS}")
    return PreparedAnswer(content)


def _sketch(schema: object, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer of the right shape: what is right already, and for what is required something to change."""
    sketch: dict[str, Any] = {}
    for field in Field.all_of(schema):
        if field.name in content and field.takes(content[field.name]):
            sketch[field.name] = content[field.name]
        elif field.required or field.name in content:
            sketch[field.name] = _example(field)
    return sketch


def _example(field: Field) -> Any:
    if field.choices:
        first = field.choices[0].value
        return [first] if field.kind == "choices" else first
    match field.kind:
        case "boolean":
            return True
        case "integer" | "number":
            return next((bound for key in ("minimum", "maximum") if field.takes(bound := field.rules.get(key))), 1)
    return "…"
