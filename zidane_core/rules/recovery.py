"""After a turn without tool calls: go on by itself after a pause, a cut or a refusal."""

from dataclasses import dataclass

from zidane_core.behavior import AgentBehavior
from zidane_core.errors import AgentLengthResumeExhaustedError
from zidane_core.session import InjectedTurnReason
from zidane_core.usage import TurnFinishReason
from zidane_core.values import Value

PLEASE_CONTINUE = "Please continue."
MAX_SILENT_RESUMES = 2
"""Resumed turns in a row with neither text nor call before the run fails (LOOP-10)."""


class RecoveryCounts(Value):
    """Recoveries in a row; any other turn resets them."""

    empty_pauses: int = 0
    length_resumes: int = 0
    silent_resumes: int = 0
    refusals: int = 0
    was_resumed: bool = False
    """Whether the turn that comes next answers a length resume."""


@dataclass(frozen=True)
class Recovery:
    """What follows a turn: an injected message (then the loop goes on), an error, or nothing."""

    counts: RecoveryCounts
    inject: InjectedTurnReason | None = None
    error: AgentLengthResumeExhaustedError | None = None


def after_turn(
    counts: RecoveryCounts,
    behavior: AgentBehavior,
    *,
    finish_reason: TurnFinishReason | None,
    has_calls: bool,
    has_text: bool,
    has_thinking: bool,
) -> Recovery:
    """Decide whether the loop goes on by itself after a turn.

    Caps end the loop cleanly: nothing is injected and the finish reason stays (LOOP-17).

    Implements: LOOP-06, LOOP-07, LOOP-08, LOOP-09, LOOP-10, LOOP-11, G-10, G-29.
    """
    if has_calls:
        return Recovery(RecoveryCounts())
    match finish_reason:
        case "pause":
            return _after_pause(counts, behavior, has_text=has_text, has_thinking=has_thinking)
        case "length":
            return _after_length(counts, behavior, has_text=has_text)
        case "content-filter":
            refusals = counts.refusals + 1
            again = refusals <= behavior.max_consecutive_refusal_resumes
            return Recovery(
                RecoveryCounts(refusals=refusals), inject="refusal-retry" if again else None
            )
        case _:
            return Recovery(RecoveryCounts())


def _after_pause(
    counts: RecoveryCounts, behavior: AgentBehavior, *, has_text: bool, has_thinking: bool
) -> Recovery:
    empty = 0 if has_text else counts.empty_pauses + (0 if has_thinking else 1)
    cap = behavior.max_consecutive_pause_turns
    at_cap = cap > 0 and empty >= cap
    return Recovery(RecoveryCounts(empty_pauses=empty), inject=None if at_cap else "pause-continue")


def _after_length(counts: RecoveryCounts, behavior: AgentBehavior, *, has_text: bool) -> Recovery:
    if not behavior.resume_on_max_tokens or behavior.max_consecutive_length_resumes == 0:
        return Recovery(RecoveryCounts())
    silent = counts.silent_resumes + 1 if counts.was_resumed and not has_text else 0
    if silent >= MAX_SILENT_RESUMES:
        return Recovery(
            counts,
            error=AgentLengthResumeExhaustedError(
                f"{silent} resumed turns in a row ended at the output cap with neither text nor a "
                "tool call. Raise behavior.max_tokens, or lower the thinking level."
            ),
        )
    resumes = counts.length_resumes + (1 if counts.was_resumed and has_text else 0)
    if resumes >= behavior.max_consecutive_length_resumes:
        return Recovery(RecoveryCounts(length_resumes=resumes))
    return Recovery(
        RecoveryCounts(length_resumes=resumes, silent_resumes=silent, was_resumed=True),
        inject="length-continue",
    )
