"""What a person sets about the rules that keep a run on its way: guards, budgets, nudges, dedup.

Options that take a function hold a `NamedCallable`, or a plain name where no text can stand; an
activity evaluates them, the rules see the answers.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field

from zidane_core.values import UserInput

EVERY_TOOL = "*"
"""Stands in a list of tools for all of them; no tool can have this name."""

DEFAULT_BUDGET_EXCLUDE_TOOLS = ("tool_search", "skills_use", "skills_read")
"""Tools whose output is what the model asked to load: for `tool_output_budget_exclude_tools`."""

BudgetScope = Literal["run", "tree"]
"""What a run's budgets count: its own turns, or those of its subagents too (BUD-06)."""


class NamedCallable(UserInput):
    """Names one of the agent's callables, where a plain string would be taken as text."""

    callable: str


Message = str | NamedCallable
"""Text sent as it is, or the callable that makes it."""

ToolMatcher = str | NamedCallable
"""An exact canonical name, `*` for every tool, or a predicate over canonical names."""


def _count(value: Any) -> Any:
    """Read a count: 0 when it is not positive or not finite, which means off."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value) if math.isfinite(value) and value >= 1 else 0
    return value


def _at_least_two(value: Any) -> Any:
    return max(2, int(value)) if _is_finite(value) else value


def _window(value: Any) -> Any:
    """Read a window of fewer than two calls as unset (GUARD-09)."""
    return (int(value) if value >= 2 else None) if _is_finite(value) else value


def _positive_or_unset(value: Any) -> Any:
    return (value if value > 0 else None) if _is_finite(value) else value


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_switch(value: Any) -> Any:
    """Read the short forms: true is all defaults, false is off."""
    if isinstance(value, bool):
        return {} if value else None
    return value


def read_budget_bytes(value: Any) -> Any:
    """Read 0, false, negative and non-finite budgets as off (NUDGE-04)."""
    if value is False or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return _positive_or_unset(value)


def read_warning(value: Any) -> Any:
    """Read a warning at no turns left, or fewer, as unset (LOOP-03)."""
    return _positive_or_unset(value)


def read_tool_budgets(value: Any) -> Any:
    """Read the short form: a number is `max`."""
    if not isinstance(value, Mapping):
        return value
    budgets = cast("Mapping[Any, Any]", value)
    return {
        name: {"max": budget}
        if isinstance(budget, int) and not isinstance(budget, bool)
        else budget
        for name, budget in budgets.items()
    }


class RepeatGuard(UserInput):
    """When a call counts as a repeat, and what comes of it.

    The four options at the end go past the rows' defaults; the `unattended` preset has them on.

    Implements: GUARD-02 to GUARD-10, K-REPEAT-01 to K-REPEAT-04.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    block_threshold: Annotated[int | None, BeforeValidator(_at_least_two)] = None
    """Equal calls at which the guard acts, at least 2; None is 4, for `read_file` 6."""
    abort_threshold: Annotated[int | None, BeforeValidator(_count)] = None
    """Equal calls at which the run is aborted, above the block threshold; None is 8, for
    `read_file` 12; 0, less, or infinity is never."""
    threshold_action: Literal["block", "steer"] = "block"
    """`block` refuses the call; `steer` runs it and adds the message to its result."""
    steering_message: Message | None = Field(
        default=None, validation_alias=AliasChoices("steering_message", "block_reason")
    )
    """What the model is told: text, or `(name, count) -> text`; None is a standard sentence."""
    tools: tuple[ToolMatcher, ...] | None = None
    """Tools that are watched; None is `shell` and `read_file`, an empty list none."""
    normalize: str | None = None
    """Name of a callable, `(name, input) -> key`, where None leaves the call out; unset is the
    built-in one (GUARD-07)."""
    count_blocked_calls: bool = False
    """Count calls that an earlier gate refused; they then lead to the abort only (GUARD-08)."""
    mode: Literal["chain", "window", "both"] | None = None
    """None is `chain`, or `window` when a size is set (GUARD-09)."""
    window_size: Annotated[int | None, BeforeValidator(_window)] = None
    """Calls of a tool among which `window` counts; None is twice the abort threshold."""
    global_ceiling: Annotated[int, BeforeValidator(_count)] = 12
    """Equal calls in a row of any tool at which the run is aborted; 0 is off (GUARD-10)."""
    global_ceiling_exclude: tuple[ToolMatcher, ...] = ()
    """Tools that the ceiling, the cycles and the loose limit leave alone: those that poll."""
    global_ceiling_window: int | None = None
    """Of no effect; it is read so that old settings stay valid."""
    results: bool = False
    """A call is a repeat only while its results are equal too (K-REPEAT-02)."""
    cycles: bool = False
    """See cycles of two to eight calls, of any tool (K-REPEAT-01)."""
    loose_limit: Annotated[int | None, BeforeValidator(_count)] = None
    """Equal calls in a row of any tool, whatever their results, at which the run is aborted;
    None and 0 are off (K-REPEAT-03)."""
    count_invalid: bool = False
    """Watch calls that cannot run, of any tool: unknown ones, bad arguments (K-REPEAT-04)."""


class ToolBudget(UserInput):
    """How often a tool may be called in a run.

    Implements: NUDGE-01.
    """

    max: int = Field(ge=0)
    """Calls; the one after them is the first that is steered or refused."""
    on_exceed: Literal["steer", "block"] | NamedCallable = "steer"
    """`steer` runs the call and advises; `block` refuses it; a callable
    `({tool, count, max, input}) -> {mode, message}` decides."""


ProgressNudgeKind = Literal[
    "read_only_turns",
    "failed_mutations",
    "noop_mutations",
    "validation_rejects",
    "tool_errors",
    "single_call_turns",
]
"""A way in which a run stands still (NUDGE-07)."""

PROGRESS_COUNTS: Mapping[ProgressNudgeKind, int] = {
    "read_only_turns": 5,
    "failed_mutations": 3,
    "noop_mutations": 3,
    "validation_rejects": 3,
    "tool_errors": 4,
    "single_call_turns": 8,
}
"""Counts of a kind that is switched on without one, in the order in which kinds are told."""


def read_progress_nudges(value: Any) -> Any:
    """Read the short forms: true is every kind at its usual count, false is off."""
    if value is True:
        return dict(PROGRESS_COUNTS)
    return None if value is False else value


def _kind_counts(fields: Any) -> Any:
    """Read each kind's true as its usual count, and what is no positive count as off."""
    if not isinstance(fields, Mapping):
        return fields
    read = dict(cast("Mapping[str, Any]", fields))
    for kind, usual in PROGRESS_COUNTS.items():
        if kind not in read:
            continue
        switch = read[kind]
        read[kind] = usual if switch is True else (None if switch is False else _count(switch))
        read[kind] = read[kind] or None if not isinstance(read[kind], str) else read[kind]
    return read


class ProgressNudges(UserInput):
    """Advice to a run that stands still; it never stops anything. Counts are in a row.

    Implements: NUDGE-06, NUDGE-07, NUDGE-08.
    """

    read_only_turns: int | None = None
    """Turns whose calls only read; None, false and 0 are off, true is the usual count."""
    failed_mutations: int | None = None
    """Changes that failed, with no success in between."""
    noop_mutations: int | None = None
    """Changes that changed nothing, with no real one in between."""
    validation_rejects: int | None = None
    """Calls with arguments that do not fit, with no call that ran in between."""
    tool_errors: int | None = None
    """Calls that ran and failed, with no success in between."""
    single_call_turns: int | None = None
    """Turns of one call each."""
    read_only_tools: tuple[str, ...] | None = None
    """Canonical names of tools that only read; None goes by the tools' own flags."""
    max_nudges: int = Field(default=3, ge=0)
    """Nudges of a run, over all kinds."""
    messages: Mapping[ProgressNudgeKind, Message] = Field(
        default_factory=dict[ProgressNudgeKind, Message]
    )
    """Text by kind, or `({kind, count}) -> text`; a kind without one has a standard sentence."""
    mode: Literal["steer"] = "steer"


ProgressNudgesOption = Annotated[
    ProgressNudges | None, BeforeValidator(_kind_counts), BeforeValidator(read_progress_nudges)
]
"""`progress_nudges` with its short forms."""


class UnknownToolRecovery(UserInput):
    """Advice after a call of a tool that there is not; its result stays an error.

    Implements: TOOL-12.
    """

    max_nudges: int = Field(default=2, ge=0)
    """Nudges of a run."""
    max_suggestions: int = Field(default=3, ge=0, le=10)
    """Closest names that a nudge lists."""
    message: Message | None = None
    """Text, or `({called, suggestions}) -> text`; None is a standard sentence."""
    mode: Literal["steer"] = "steer"


class TextToolCallRescue(UserInput):
    """Advice after a tool call that was written as text; it is never run (TOOL-13)."""

    mode: Literal["steer"] = "steer"
