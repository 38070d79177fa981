"""What a chat completion used, from the many places in which servers report it; pure."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from activities.providers.base import ModelRequest
from activities.providers.token_estimate import estimate_request, estimate_text
from zidane_core.usage import TurnUsage


class UsageReader:
    """Collects the reports of one stream; a later number stands over an earlier one."""

    def __init__(self) -> None:
        self._reported: dict[str, Any] = {}

    def feed(self, chunk: Mapping[str, Any]) -> None:
        """Take a chunk's report, wherever it is.

        Most servers put it beside the choices, often in a last chunk without any; Moonshot puts
        it into the choice, Groq into a field of its own, and llama.cpp counts in `timings`.
        """
        self._take(_mapping(chunk.get("x_groq")).get("usage"))
        choices = chunk.get("choices")
        for choice in cast("list[Any]", choices) if isinstance(choices, list) else ():
            self._take(_mapping(choice).get("usage"))
        self._take(chunk.get("usage"))
        timings = _mapping(chunk.get("timings"))
        if "prompt_n" in timings and not self._reported:
            cached = _count(timings.get("cache_n"))
            self._take(
                {
                    "prompt_tokens": _count(timings.get("prompt_n")) + cached,
                    "completion_tokens": _count(timings.get("predicted_n")),
                    "prompt_tokens_details": {"cached_tokens": cached},
                }
            )

    def finish(
        self, request: ModelRequest, *, provider: str, model_id: str, written: Iterable[str]
    ) -> TurnUsage:
        """Return the turn's usage; an estimate where the server counted nothing (K-OPENAI-07).

        Args:
            request: The call, of which the input is estimated.
            provider: The provider's name.
            model_id: The model that answered.
            written: All that the model wrote, of which the output is estimated.

        Implements: USE-01, PROV-14, CACHE-03.
        """
        reported = self._reported
        total = _count(reported.get("prompt_tokens"))
        output = _count(reported.get("completion_tokens"))
        if not total and not output:
            # Never zero: budgets must work with servers that do not count.
            return TurnUsage(
                input=estimate_request(request),
                output=max(1, sum(map(estimate_text, written))),
                estimated=True,
                cost=self._cost(),
                model_id=model_id,
                provider=provider,
            )
        inputs = _mapping(reported.get("prompt_tokens_details"))
        outputs = _mapping(reported.get("completion_tokens_details"))
        read = _first(
            inputs.get("cached_tokens"),
            reported.get("prompt_cache_hit_tokens"),
            reported.get("cached_tokens"),
            reported.get("cache_read_input_tokens"),
        )
        created = _first(
            inputs.get("cache_write_tokens"),
            inputs.get("cache_creation_tokens"),
            reported.get("cache_creation_input_tokens"),
        )
        return TurnUsage(
            input=max(0, total - (read or 0) - (created or 0)),
            output=output,
            cache_read=read,
            cache_creation=created,
            thinking=_first(outputs.get("reasoning_tokens"), reported.get("reasoning_tokens")),
            cost=self._cost(),
            model_id=model_id,
            provider=provider,
        )

    def _take(self, report: Any) -> None:
        known = {key: value for key, value in _mapping(report).items() if value is not None}
        self._reported.update(known)

    def _cost(self) -> float | None:
        """Return the cost in USD that the service names, with what a key of one's own paid."""
        cost = self._reported.get("cost")
        if isinstance(cost, bool) or not isinstance(cost, int | float):
            return None
        upstream = _mapping(self._reported.get("cost_details")).get("upstream_inference_cost")
        if self._reported.get("is_byok") is True and isinstance(upstream, int | float):
            return float(cost + upstream)
        return float(cost)


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def _first(*values: Any) -> int | None:
    return next((int(value) for value in values if isinstance(value, int | float)), None)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
