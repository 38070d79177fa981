"""Ids of decisions, which a retry mints again."""

import hashlib
import json
from typing import Any

from zidane_core.clock import uuid4_of


class DecisionIds:
    """Ids of the decisions of one place, the same in the same order when it is tried again.

    Args:
        scope: What names the place: run id, call id and the like.

    Implements: DEC-11.
    """

    def __init__(self, *scope: Any) -> None:
        self._scope = scope
        self._count = 0

    def __call__(self) -> str:
        """Return the next id."""
        self._count += 1
        packed = json.dumps([*self._scope, self._count], default=str).encode()
        return uuid4_of(int.from_bytes(hashlib.sha256(packed).digest()[:16]))
