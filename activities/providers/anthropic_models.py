"""What Anthropic's models take and refuse, a row per family; the catalogue knows their sizes.

A request that names a field its model refuses fails whole, so what is not in a row is not sent.
Names that are not Claude's are those of other servers that speak this wire: they get the oldest
common form.
"""

from dataclasses import dataclass, replace
from typing import Literal

from zidane_core.behavior import ThinkingLevel

ThinkingForm = Literal["budget", "both", "adaptive"]
"""Which forms of the `thinking` parameter a model takes."""

OffForm = Literal["absent", "disabled", "between_tools", "never"]
"""How a model is told not to think: no field, a type of its own, or not at all."""

DEFAULT_MAX_TOKENS = 32_000

_UP_TO_XHIGH: frozenset[ThinkingLevel] = frozenset({"low", "medium", "high", "xhigh", "max"})
_WITHOUT_XHIGH = _UP_TO_XHIGH - {"xhigh"}


@dataclass(frozen=True)
class ModelFacts:
    """One family of models."""

    max_tokens: int = 128_000
    """Output ceiling in tokens, reasoning included."""
    thinking: ThinkingForm = "adaptive"
    off: OffForm = "absent"
    efforts: frozenset[ThinkingLevel] = _UP_TO_XHIGH
    hides_thinking: bool = True
    """Sends reasoning without its text unless it is asked for a summary."""
    binds_thinking: bool = False
    """Refuses replayed reasoning when anything before it changed, unless told to drop it."""
    forces_tools: bool = True
    """Can be made to call one tool while it does not think."""
    samples: bool = False
    """Takes temperature, top_p and top_k while it does not think."""
    is_fast: bool = False
    """Has a fast mode."""
    budgets_tasks: bool = False
    """Takes a budget for the whole task."""
    schemas: bool = True
    """Can be held to a JSON Schema."""
    is_known: bool = True
    """The row is about these models; False where it is a guess."""


_BUDGETED = ModelFacts(
    max_tokens=64_000, thinking="budget", efforts=frozenset(), hides_thinking=False, samples=True
)
_OLD = ModelFacts(
    max_tokens=32_000,
    thinking="budget",
    efforts=frozenset(),
    hides_thinking=False,
    samples=True,
    schemas=False,
)
_BOTH = ModelFacts(thinking="both", efforts=_WITHOUT_XHIGH, hides_thinking=False, samples=True)
_ALWAYS = ModelFacts(off="never", forces_tools=False, budgets_tasks=True)
_BOUND = ModelFacts(off="never", binds_thinking=True, forces_tools=False, budgets_tasks=True)

MODEL_ROWS: tuple[tuple[str, ModelFacts], ...] = (
    ("claude-3", replace(_OLD, max_tokens=8_192)),
    ("claude-opus-4-0", _OLD),
    ("claude-opus-4-1", _OLD),
    ("claude-opus-4-2", _OLD),
    ("claude-sonnet-4-0", replace(_OLD, max_tokens=64_000)),
    ("claude-sonnet-4-2", replace(_OLD, max_tokens=64_000)),
    ("claude-opus-4-5", _BUDGETED),
    ("claude-sonnet-4-5", _BUDGETED),
    ("claude-haiku-4", _BUDGETED),
    ("claude-opus-4-6", _BOTH),
    ("claude-sonnet-4-6", _BOTH),
    ("claude-opus-4-7", ModelFacts(budgets_tasks=True)),
    ("claude-opus-4-8", ModelFacts(budgets_tasks=True, is_fast=True)),
    ("claude-opus-5-5", replace(_BOUND, is_fast=True)),
    ("claude-opus-5", ModelFacts(off="disabled", budgets_tasks=True, is_fast=True)),
    ("claude-sonnet-5-5", replace(_BOUND, off="between_tools")),
    ("claude-sonnet-5", ModelFacts(off="disabled")),
    (
        "claude-haiku-5",
        ModelFacts(off="disabled", binds_thinking=True, budgets_tasks=True),
    ),
    ("claude-fable-5-", _BOUND),
    ("claude-mythos-5-", _BOUND),
    ("claude-fable", _ALWAYS),
    ("claude-mythos-5", _ALWAYS),
    ("claude-mythos", ModelFacts(thinking="both", off="never", forces_tools=False)),
    # A newer model than this list: only what its elders all take.
    ("claude-", ModelFacts(forces_tools=False, is_known=False)),
    (
        "",
        ModelFacts(
            max_tokens=DEFAULT_MAX_TOKENS,
            thinking="both",
            hides_thinking=False,
            samples=True,
            budgets_tasks=True,
            schemas=False,
            is_known=False,
        ),
    ),
)
"""Prefix of the model's name and its facts; the first match counts."""


def facts_of(model: str) -> ModelFacts:
    """Return what is known of a model; a careful guess for one that is not in the list."""
    return next(facts for prefix, facts in MODEL_ROWS if model.startswith(prefix))
