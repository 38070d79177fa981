"""What a model refused of a Responses request, so that the next one leaves it out; pure.

Which models reason, at which efforts, and which accounts may see summaries is known to the
service alone. It refuses such a field with a 400 that names it, before anything is charged.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

LADDER = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Every effort, the least first."""

_QUOTED = re.compile(r"'(\w+)'")
_SUPPORTED = "supported values are"
_NO_ENCRYPTED = "encrypted content is not supported"


@dataclass(frozen=True)
class Limits:
    """What is known of one model on one account; by default that it takes everything."""

    has_reasoning: bool = True
    """Takes the field `reasoning`."""
    has_summary: bool = True
    """The account may see summaries of the reasoning."""
    has_encrypted: bool = True
    """Returns its reasoning encrypted."""
    efforts: tuple[str, ...] | None = None
    """The efforts that it takes; None when it has refused none."""

    def nearest_effort(self, wanted: str) -> str | None:
        """Return the highest effort up to `wanted` that the model takes, else its lowest.

        `none` stands only for `none`: a model that is asked to reason a little must not stop.
        """
        if self.efforts is None or wanted in self.efforts:
            return wanted
        able = [effort for effort in LADDER if effort in self.efforts and effort != "none"]
        below = [effort for effort in able if LADDER.index(effort) <= LADDER.index(wanted)]
        return next(iter([*reversed(below), *able]), None)

    def learned(self, body: object) -> "Limits | None":
        """Return what a 400 adds to this; None when it is about something else or nothing new.

        Args:
            body: The answer's error object, with `param`, `code` and `message`.
        """
        error = cast("Mapping[str, Any]", body if isinstance(body, Mapping) else {})
        param, said = str(error.get("param") or ""), str(error.get("message") or "").lower()
        found = self
        if param == "reasoning.summary":
            found = dataclasses.replace(self, has_summary=False)
        elif param.startswith("include") or _NO_ENCRYPTED in said:
            found = dataclasses.replace(self, has_encrypted=False)
        elif param == "reasoning.effort" and _SUPPORTED in said:
            listed = _QUOTED.findall(said[said.index(_SUPPORTED) :])
            found = dataclasses.replace(
                self, efforts=tuple(effort for effort in LADDER if effort in listed)
            )
        elif param.partition(".")[0] == "reasoning":
            found = dataclasses.replace(self, has_reasoning=False)
        return found if found != self else None
