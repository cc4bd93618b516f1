"""How the `params` of a request are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw

from mcpd.errors import BadRequest

P = TypeVar("P")


def decoder(kind: type[P]) -> Callable[[bytes | Raw], P]:
    """Return what decodes the parameters of a method."""
    return msgspec.json.Decoder(kind).decode


def read_params(method: str, decode: Callable[[bytes | Raw], P], params: Raw) -> P:
    """Decode parameters.

    Raises:
        BadRequest: They do not fit; says where and what was expected.
    """
    try:
        return decode(params or b"{}")
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BadRequest(f"{method}: {str(problem)[:1].lower()}{str(problem)[1:]}") from None
