"""State that a client keeps and cannot change."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from typing import Any


class Seal:
    """What one process closes it alone can open, as long as nobody has touched it."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)

    def close(self, state: dict[str, Any]) -> str:
        body = base64.b64encode(json.dumps(state).encode()).decode()
        return f"{body}.{self._sign(body)}"

    def open(self, sealed: str) -> dict[str, Any] | None:
        """Return what was closed; None if that is not what this is."""
        body, _, signature = sealed.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(body).encode()):
            return None
        told: dict[str, Any] = json.loads(base64.b64decode(body))
        return told

    def _sign(self, body: str) -> str:
        return hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()
