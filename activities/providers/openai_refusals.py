"""What a server refused of a chat completion, so that the next request leaves it out; pure.

Servers that speak OpenAI's form differ in the fields that they take, and strict ones answer 400
to a field that they do not know. Which do is known to the server alone, so it is tried once.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

REFUSED_STATUSES = (400, 422)
"""HTTP statuses of a request whose form is refused; nothing is charged for it."""

OUTPUT_CAPS = ("max_completion_tokens", "max_tokens")
"""Both names of the output cap; a server that refuses one takes the other."""

REASONING_BACK = "reasoning_content"

_DISPENSABLE = (
    "stream_options",
    "usage",
    "reasoning_effort",
    "reasoning",
    "parallel_tool_calls",
    "tool_choice",
    "cache_control",
    REASONING_BACK,
    *OUTPUT_CAPS,
)
"""Fields without which, or under whose other name, the request means the same or nearly so."""

_IS_REFUSAL = re.compile(
    r"unknown|unrecogni[sz]ed|unsupported|not support|n't support|unexpected|not permitted"
    r"|not allowed|forbidden|extra (?:input|field)|additional propert|no such (?:field|param)"
    r"|invalid (?:param|field|argument|name)|incompatible|not (?:a )?valid param"
    r"|cannot be set|must not be",
    re.IGNORECASE,
)
_IS_MISSING = re.compile(r"missing|must be passed back|is required", re.IGNORECASE)
_IS_MANDATORY = re.compile(r"reasoning.*(?:mandatory|cannot be disabled)", re.IGNORECASE)
_SUPPORTED = re.compile(
    r"(?:(?:supported|allowed|permitted|valid|accepted) values[^:]*:|(?:must|should) be one of"
    r"|input should be)([^\"}\n]*)",
    re.IGNORECASE,
)
_EFFORT_WORD = re.compile(r"\b(none|minimal|low|medium|high|xhigh|max)\b")


@dataclass(frozen=True)
class Refused:
    """What one server refused for one model; by default nothing."""

    fields: frozenset[str] = frozenset()
    """Fields that are left out; of the output caps, the name that is not used."""
    efforts: tuple[str, ...] | None = None
    """The efforts that it takes; None when it named none."""
    wants_reasoning: bool = False
    """It refused a history without the reasoning of its tool calls."""
    must_reason: bool = False
    """It refused to answer without reasoning."""

    def learned(self, body: Mapping[str, Any], said: str) -> "Refused | None":
        """Return what an answer adds to this; None when it is about something else.

        Args:
            body: The request that was refused; only what it holds can be the reason.
            said: The answer, whole, as text.
        """
        found = self
        if _names(said, REASONING_BACK) and _IS_MISSING.search(said):
            found = replace(self, wants_reasoning=True)
        elif _IS_MANDATORY.search(said) and body.get("reasoning", {}).get("enabled") is False:
            found = replace(self, must_reason=True)
        elif (efforts := self._taken_efforts(body, said)) is not None:
            found = replace(self, efforts=efforts)
        elif _IS_REFUSAL.search(said):
            named = [each for each in _DISPENSABLE if _names(said, each) and _holds(body, each)]
            found = replace(self, fields=self.fields | frozenset(named))
        return found if found != self else None

    def cap_field(self, usual: str) -> str | None:
        """Return the name of the output cap; None when the server takes neither."""
        names = (usual, *(name for name in OUTPUT_CAPS if name != usual))
        return next((name for name in names if name not in self.fields), None)

    def _taken_efforts(self, body: Mapping[str, Any], said: str) -> tuple[str, ...] | None:
        """Return the efforts that the answer lists, when it refuses the one that was sent."""
        sent: Any = body.get("reasoning_effort") or body.get("reasoning", {}).get("effort")
        listed = _SUPPORTED.search(said)
        if sent is None or listed is None or not re.search(r"effort", said):
            return None
        found = tuple(dict.fromkeys(_EFFORT_WORD.findall(listed[1].lower())))
        return found if found and sent not in found else None


class Refusals:
    """The memory of one provider, by model; lives as long as the worker."""

    def __init__(self) -> None:
        self._by_model: dict[str, Refused] = {}

    def of(self, model: str) -> Refused:
        """Return what is known of a model."""
        return self._by_model.get(model, Refused())

    def learn(self, model: str, body: Mapping[str, Any], said: str) -> bool:
        """Remember what an answer refused; say whether a request without it is worth sending.

        Each field is learned once, so that asking again until nothing is learned ends.

        Implements: K-OPENAI-07.
        """
        found = self.of(model).learned(body, said)
        if found is None:
            return False
        self._by_model[model] = found
        return True


def _names(said: str, field: str) -> bool:
    return re.search(rf"(?<!\w){field}(?!\w)", said, re.IGNORECASE) is not None


def _holds(body: Mapping[str, Any], field: str) -> bool:
    """Say whether a request has the field, on top, in a message, a tool or a part."""
    if field in body:
        return True
    if field not in ("cache_control", REASONING_BACK):
        return False
    inner = [*body.get("messages", ()), *body.get("tools", ())]
    return any(_has_key(each, field) for each in inner)


def _has_key(holder: Mapping[str, Any], field: str) -> bool:
    content = holder.get("content")
    parts = cast("Sequence[Any]", content) if isinstance(content, list) else ()
    return field in holder or any(isinstance(part, Mapping) and field in part for part in parts)
