"""From a level, a budget and what the model takes to Anthropic's `thinking` and effort; pure."""

from typing import Any

from activities.providers.anthropic_models import ModelFacts
from activities.providers.base import ModelRequest
from zidane_core.behavior import ThinkingLevel
from zidane_core.thinking import level_budget, nearest_level

WireJson = dict[str, Any]

MIN_BUDGET = 1_024
MIN_TASK_BUDGET = 20_000
"""The service refuses less, so a smaller one is raised to it."""
MAX_ANSWER_ROOM = 4_096
"""Tokens of the output ceiling that a budget leaves for the answer, or a quarter of it if less."""

_BINDING: WireJson = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
"""A history that a hook or a repair changed must not lock its session (PROV-12)."""
_EFFORT_OF: dict[ThinkingLevel, ThinkingLevel] = {"minimal": "low"}
_WEAKER: dict[ThinkingLevel, ThinkingLevel] = {"max": "xhigh", "xhigh": "high"}


def thinking_fields(request: ModelRequest, facts: ModelFacts, max_tokens: int) -> WireJson:
    """Return `thinking` and `output_config`, each only when there is something to say.

    - A level is adaptive thinking with an effort; without `effort_hint`, adaptive alone.
    - A budget, or a level on a model that takes budgets only, is the enabled form.
    - A model that takes no budgets gets the highest effort that the budget pays for.
    - `off` is no field where that means no thinking, else the model's own word for it; a model
      that always thinks gets the lowest effort.
    - A task budget goes with adaptive thinking only.
    - A model that the catalogue says does not reason gets nothing.

    Implements: RUN-05, THNK-01, THNK-02, THNK-03, THNK-04.
    """
    if request.info.reasoning is False:
        return {}
    level, budget = request.thinking, request.thinking_budget
    if level == "off":
        return _off(request, facts)
    if facts.thinking == "budget":
        return _enabled(budget or level_budget(level), max_tokens)
    if budget is not None and level != "adaptive":
        if facts.thinking == "both":
            return _enabled(budget, max_tokens)
        level = nearest_level(budget)
    output_config: WireJson = {}
    if request.effort_hint and (effort := _effort(level, facts)) is not None:
        output_config["effort"] = effort
    if request.task_budget is not None and facts.budgets_tasks:
        total = max(request.task_budget, MIN_TASK_BUDGET)
        output_config["task_budget"] = {"type": "tokens", "total": total}
    return _made(_adaptive(request, facts), output_config)


def is_thinking(body: WireJson, facts: ModelFacts) -> bool:
    """Say whether a request lets the model think, so that it takes no forced tool (THNK-01)."""
    kind = body.get("thinking", {}).get("type")
    # Those that have a word for it think when they are told nothing.
    return facts.off != "absent" if kind is None else kind in ("adaptive", "enabled")


def _off(request: ModelRequest, facts: ModelFacts) -> WireJson:
    match facts.off:
        case "absent":
            return {}
        case "never":
            effort = _effort("low", facts) if request.effort_hint else None
            thinking: WireJson = {"type": "adaptive", **_BINDING} if facts.binds_thinking else {}
            return _made(thinking, {} if effort is None else {"effort": effort})
        case kind:
            return {"thinking": {"type": kind}}


def _adaptive(request: ModelRequest, facts: ModelFacts) -> WireJson:
    thinking: WireJson = {"type": "adaptive"}
    display = request.model_options.get("thinking_display")
    if isinstance(display, str):
        thinking["display"] = display
    elif facts.hides_thinking:
        # Without its text there is nothing to stream, to watch for silence, or to show.
        thinking["display"] = "summarized"
    return {**thinking, **_BINDING} if facts.binds_thinking else thinking


def _enabled(tokens: int, max_tokens: int) -> WireJson:
    """Return the enabled form; none when the output cap leaves no room for the least budget."""
    if max_tokens <= MIN_BUDGET:
        return {}
    room = min(MAX_ANSWER_ROOM, max_tokens // 4)
    # The service refuses less than the least budget, so the answer's room gives way to it.
    budget = max(MIN_BUDGET, min(tokens, max_tokens - room))
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _effort(level: ThinkingLevel, facts: ModelFacts) -> ThinkingLevel | None:
    """Return the level as an effort, or the next weaker one that the model has."""
    effort = _EFFORT_OF.get(level, level)
    while effort not in facts.efforts and effort in _WEAKER:
        effort = _WEAKER[effort]
    return effort if effort in facts.efforts else None


def _made(thinking: WireJson, output_config: WireJson) -> WireJson:
    fields = {"thinking": thinking, "output_config": output_config}
    return {key: value for key, value in fields.items() if value}
