"""From one era and revision of the protocol to another: what a server said, in words that the client knows."""

from .cards import capabilities, discover_result, initialize_result, negotiated
from .errors import elicitations, error
from .lists import ListKind, descriptor, list_result
from .questions import answer_to_legacy, input_required, question
from .results import Kind, to_legacy, to_modern

__all__ = [
    "Kind",
    "ListKind",
    "answer_to_legacy",
    "capabilities",
    "descriptor",
    "discover_result",
    "elicitations",
    "error",
    "initialize_result",
    "input_required",
    "list_result",
    "negotiated",
    "question",
    "to_legacy",
    "to_modern",
]
