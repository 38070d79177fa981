"""After a turn without tool calls: go on by itself after a pause, a cut or a refusal."""

from dataclasses import dataclass

from zidane_core.behavior import AgentBehavior
from zidane_core.errors import AgentLengthResumeExhaustedError, AgentPauseExhaustedError
from zidane_core.session import InjectedTurnReason
from zidane_core.usage import TurnFinishReason
from zidane_core.values import Value

PLEASE_CONTINUE = "Please continue."
MAX_SERVER_CONTINUATIONS = 32
"""Turns in a row that paused inside a tool of the provider's own before the run fails."""
MAX_CUT_CALLS = 3
"""Turns in a row whose tool call the output limit cut before the run fails (K-ANTHROPIC-04)."""
MAX_SILENT_RESUMES = 2
"""Resumed turns in a row with neither text nor call before the run fails (LOOP-10)."""


class RecoveryCounts(Value):
    """Recoveries in a row; any other turn resets them."""

    empty_pauses: int = 0
    length_resumes: int = 0
    silent_resumes: int = 0
    refusals: int = 0
    server_pauses: int = 0
    cut_calls: int = 0
    was_resumed: bool = False
    """Whether the turn that comes next answers a length resume."""


@dataclass(frozen=True)
class Recovery:
    """What follows a turn: an injected message or a bare continuation, an error, or nothing."""

    counts: RecoveryCounts
    inject: InjectedTurnReason | None = None
    go_on: bool = False
    """Call the model again with nothing added."""
    error: AgentLengthResumeExhaustedError | AgentPauseExhaustedError | None = None


def after_turn(
    counts: RecoveryCounts,
    behavior: AgentBehavior,
    *,
    finish_reason: TurnFinishReason | None,
    has_calls: bool,
    has_text: bool,
    has_thinking: bool,
    awaits_server: bool = False,
) -> Recovery:
    """Decide whether the loop goes on by itself after a turn.

    Caps end the loop cleanly: nothing is injected and the finish reason stays (LOOP-17).

    A turn that paused inside a tool of the provider's own goes back as it is, with no text of
    ours; the provider then goes on where it was (K-ANTHROPIC-03).

    Implements: LOOP-06, LOOP-07, LOOP-08, LOOP-09, LOOP-10, LOOP-11, G-10, G-29.
    """
    if has_calls:
        return _after_calls(counts, is_cut=finish_reason == "length")
    match finish_reason:
        case "pause" if awaits_server:
            return _after_server_pause(counts)
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


def _after_calls(counts: RecoveryCounts, *, is_cut: bool) -> Recovery:
    cut = counts.cut_calls + 1 if is_cut else 0
    if cut < MAX_CUT_CALLS:
        return Recovery(RecoveryCounts(cut_calls=cut))
    return Recovery(
        counts,
        error=AgentLengthResumeExhaustedError(
            f"{cut} turns in a row were cut by the output limit inside a tool call, which was not "
            "run. Raise behavior.max_tokens, or have the agent write in smaller pieces."
        ),
    )


def _after_server_pause(counts: RecoveryCounts) -> Recovery:
    pauses = counts.server_pauses + 1
    if pauses <= MAX_SERVER_CONTINUATIONS:
        return Recovery(RecoveryCounts(server_pauses=pauses), go_on=True)
    return Recovery(
        counts,
        error=AgentPauseExhaustedError(
            f"The model paused {pauses} times in a row inside a tool of its provider's own and "
            "came to no end. Ask for less at once, or turn that tool off."
        ),
    )


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
