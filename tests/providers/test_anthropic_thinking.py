"""Levels, budgets and efforts as Anthropic's models take them."""

from typing import Any

import pytest

from activities.providers.anthropic_models import facts_of
from activities.providers.anthropic_options import BINDING_BETA, TASK_BUDGET_BETA, beta_names
from activities.providers.anthropic_wire import build_body
from tests.support.model_requests import model_request, tool_spec
from zidane_core.behavior import ThinkingLevel
from zidane_core.models import ModelInfo

ADAPTIVE = {"type": "adaptive"}
SHOWN = {"type": "adaptive", "display": "summarized"}
UNSEEN = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
BOUND = {**SHOWN, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def _body(model: str = "x", **fields: Any) -> dict[str, Any]:
    return build_body(model_request(model=model, **fields))


def _sent(model: str = "x", **fields: Any) -> dict[str, Any]:
    body = _body(model, **fields)
    return {key: body[key] for key in ("thinking", "output_config") if key in body}


def _enabled(tokens: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


@pytest.mark.parametrize(
    ("level", "effort"),
    [
        ("minimal", "low"),
        ("low", "low"),
        ("medium", "medium"),
        ("high", "high"),
        ("xhigh", "xhigh"),
        ("max", "max"),
    ],
)
def test_a_level_is_adaptive_thinking_with_an_effort(level: ThinkingLevel, effort: str) -> None:
    """RUN-05, THNK-01, THNK-03."""
    assert _sent(thinking=level) == {"thinking": ADAPTIVE, "output_config": {"effort": effort}}


@pytest.mark.parametrize("level", ["minimal", "low", "medium", "high", "xhigh", "max", "adaptive"])
def test_without_the_hint_every_level_is_the_same_plain_request(level: ThinkingLevel) -> None:
    """THNK-03."""
    assert _sent(thinking=level, effort_hint=False) == {"thinking": ADAPTIVE}


def test_adaptive_names_no_effort() -> None:
    """RUN-05."""
    assert _sent(thinking="adaptive") == {"thinking": ADAPTIVE}


@pytest.mark.parametrize("hint", [True, False])
def test_an_explicit_budget_takes_the_enabled_path(hint: bool) -> None:
    """THNK-02, THNK-03: with and without the hint."""
    sent = _sent(thinking="low", thinking_budget=2_000, effort_hint=hint)
    assert sent == _enabled(2_000)


def test_a_budget_without_a_level_is_ignored() -> None:
    """THNK-01: `off` disables."""
    assert _sent(thinking_budget=2_000, task_budget=50_000) == {}


@pytest.mark.parametrize(
    ("model", "fields", "expected"),
    [
        ("claude-sonnet-4-5", {"thinking": "high"}, _enabled(32_768)),
        ("claude-sonnet-4-5", {"thinking": "adaptive"}, _enabled(10_240)),
        ("claude-sonnet-4-5", {"thinking": "max"}, _enabled(59_904)),
        ("claude-sonnet-4-5", {"thinking": "high", "max_tokens": 4_000}, _enabled(3_000)),
        ("claude-sonnet-4-5", {"thinking": "high", "max_tokens": 1_100}, _enabled(1_024)),
        ("claude-sonnet-4-5", {"thinking": "high", "max_tokens": 1_024}, {}),
        ("x", {"thinking": "low", "thinking_budget": 10}, _enabled(1_024)),
    ],
)
def test_a_budget_fits_between_the_least_one_and_the_output_cap(
    model: str, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    """THNK-01, THNK-02: an answer keeps room; no room, no thinking."""
    assert _sent(model, **fields) == expected


def test_a_model_without_budgets_gets_the_effort_that_the_budget_pays_for() -> None:
    """THNK-02."""
    assert _sent("claude-opus-4-8", thinking="low", thinking_budget=12_000) == {
        "thinking": SHOWN,
        "output_config": {"effort": "medium"},
    }


def test_a_model_without_an_effort_gets_the_next_weaker_one() -> None:
    """THNK-03: xhigh came with Opus 4.7."""
    assert _sent("claude-opus-4-6", thinking="xhigh")["output_config"] == {"effort": "high"}
    assert _sent("claude-opus-4-6", thinking="max")["output_config"] == {"effort": "max"}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("x", {}),
        ("claude-opus-4-8", {}),
        ("claude-sonnet-4-5", {}),
        ("claude-opus-5", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-5", {"thinking": {"type": "disabled"}}),
        ("claude-haiku-5-5", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-5-5", {"thinking": {"type": "between_tools"}}),
        ("claude-opus-5-5", {"thinking": UNSEEN, "output_config": {"effort": "low"}}),
        ("claude-fable-5", {"output_config": {"effort": "low"}}),
    ],
)
def test_off_is_said_in_the_models_own_word(model: str, expected: dict[str, Any]) -> None:
    """THNK-01: newer models think unless they are told not to, and some cannot stop."""
    assert _sent(model) == expected


@pytest.mark.parametrize("level", ["off", "high", "adaptive"])
def test_a_model_that_does_not_reason_gets_no_thinking_field(level: ThinkingLevel) -> None:
    """CAT-02, THNK-01."""
    assert _sent("claude-opus-5", thinking=level, info=ModelInfo(reasoning=False)) == {}


# -- what comes back ----------------------------------------------------------------------------


def test_reasoning_that_would_come_without_its_text_is_asked_for_as_a_summary() -> None:
    """PROV-08: or a long thought would be silence; an option turns it off."""
    hidden = {"thinking_display": "omitted"}
    assert _sent("claude-opus-4-8", thinking="adaptive")["thinking"] == SHOWN
    sent = _sent("claude-opus-4-8", thinking="adaptive", model_options=hidden)
    assert sent["thinking"] == {"type": "adaptive", "display": "omitted"}


@pytest.mark.parametrize(
    "model", ["claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-2"]
)
def test_a_model_that_checks_replayed_reasoning_is_told_to_drop_what_fails(model: str) -> None:
    """PROV-12: else one changed message would lock the session; what it drops, it reports."""
    body = _body(model, thinking="adaptive")
    assert body["thinking"] == BOUND
    assert beta_names(body, {}) == (BINDING_BETA,)


# -- the budget of a task -----------------------------------------------------------------------


def test_a_task_budget_goes_with_adaptive_thinking() -> None:
    """THNK-04."""
    body = _body("claude-opus-4-8", thinking="high", task_budget=64_000)
    assert body["output_config"] == {
        "effort": "high",
        "task_budget": {"type": "tokens", "total": 64_000},
    }
    assert beta_names(body, {}) == (TASK_BUDGET_BETA,)


def test_a_task_budget_below_the_services_least_is_raised_to_it() -> None:
    """THNK-04."""
    sent = _sent("claude-opus-4-8", thinking="adaptive", task_budget=1)
    assert sent["output_config"]["task_budget"]["total"] == 20_000


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("x", {}),
        ("x", {"thinking": "high", "thinking_budget": 4_000}),
        ("claude-opus-5-5", {}),
        ("claude-sonnet-4-5", {"thinking": "high"}),
        ("claude-opus-4-6", {"thinking": "high"}),
    ],
)
def test_a_task_budget_is_ignored_elsewhere(model: str, fields: dict[str, Any]) -> None:
    """THNK-04: off, the enabled path, and models that know none."""
    body = _body(model, task_budget=64_000, **fields)
    assert "task_budget" not in body.get("output_config", {})
    assert TASK_BUDGET_BETA not in beta_names(body, {})


# -- a tool that must be called ------------------------------------------------------------------

ANSWER = (tool_spec("answer", alias="Answer"),)


@pytest.mark.parametrize(
    ("model", "fields", "is_forced"),
    [
        ("x", {}, True),
        ("x", {"thinking": "low"}, False),
        ("x", {"thinking": "low", "thinking_budget": 2_000}, False),
        ("claude-haiku-5-5", {}, True),
        ("claude-haiku-5-5", {"info": ModelInfo(reasoning=False)}, False),
        ("claude-opus-4-8", {}, True),
        ("claude-opus-5-5", {}, False),
        ("claude-sonnet-5-5", {}, False),
        ("claude-fable-5-2", {}, False),
    ],
)
def test_a_tool_is_forced_only_on_a_model_that_does_not_think(
    model: str, fields: dict[str, Any], is_forced: bool
) -> None:
    """OUT-02: the service refuses both together, and some models any forcing."""
    body = _body(model, tools=ANSWER, force_tool="answer", **fields)
    expected = {"type": "tool", "name": "Answer"} if is_forced else None
    assert body.get("tool_choice") == expected


def test_a_tool_that_is_not_there_is_not_forced() -> None:
    """OUT-02."""
    assert "tool_choice" not in _body(tools=ANSWER, force_tool="other")


@pytest.mark.parametrize(
    ("model", "row"),
    [
        ("claude-opus-4-20250514", "claude-opus-4-1"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4"),
        ("claude-opus-5-5-20260922", "claude-opus-5-5"),
        ("claude-mythos-5-2", "claude-fable-5-2"),
    ],
)
def test_a_dated_name_is_of_the_same_family(model: str, row: str) -> None:
    """CAT-02."""
    assert facts_of(model) == facts_of(row)
