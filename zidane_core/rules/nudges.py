"""Should the model be advised: advice goes with the next turn and never stops anything."""

from dataclasses import dataclass

from zidane_core.behavior import ThinkingOverrun
from zidane_core.call_facts import Wording
from zidane_core.loop_options import TextToolCallRescue, UnknownToolRecovery
from zidane_core.rules.verdicts import Nudge
from zidane_core.values import Value

THINKING_OVERRUN = (
    "Your last turn reasoned at length. Prefer a concrete next step: call a tool, or answer."
)

MAX_TEXT_CALL_RESCUES = 3
"""Turns in a row with a call written as text before the run is left to end."""


def thinking_overrun(policy: ThinkingOverrun | None, thinking_tokens: int) -> str | None:
    """Return the advice to a model that reasoned past the threshold, or None.

    Implements: NUDGE-10, THNK-10.
    """
    if policy is None or policy.mode == "off" or thinking_tokens <= policy.threshold_tokens:
        return None
    return policy.message or THINKING_OVERRUN


class RecoveryNudges(Value):
    """Nudges given after calls that could not be made."""

    unknown_tools: int = 0
    """Of the run."""
    text_calls: int = 0
    """In a row; a turn with a real call begins anew."""


@dataclass(frozen=True)
class Advised:
    """The state, and what the model is told, if anything."""

    state: RecoveryNudges
    nudges: tuple[Nudge, ...] = ()


@dataclass(frozen=True)
class UnknownCall:
    """A call of a tool that there is not."""

    called: str
    """As the model wrote it."""
    suggestions: tuple[str, ...] = ()
    """Closest shown names, best first."""


def unknown_tools(
    state: RecoveryNudges,
    recovery: UnknownToolRecovery | None,
    calls: tuple[UnknownCall, ...],
) -> Advised:
    """Advise after a turn that called unknown tools: once per name, while nudges are left.

    Args:
        state: Nudges so far.
        recovery: None is off.
        calls: The turn's unknown calls, in the model's order.

    Implements: TOOL-12, NUDGE-09.
    """
    if recovery is None:
        return Advised(state)
    distinct = {call.called: call for call in reversed(calls)}
    ordered = [call for call in calls if distinct[call.called] is call]
    room = max(0, recovery.max_nudges - state.unknown_tools)
    nudges = tuple(
        Nudge(reason="unknown-tool", wording=_unknown_wording(recovery, call))
        for call in ordered[:room]
    )
    given = state.unknown_tools + len(nudges)
    return Advised(state.model_copy(update={"unknown_tools": given}), nudges)


def _unknown_wording(recovery: UnknownToolRecovery, call: UnknownCall) -> Wording:
    message = recovery.message
    if isinstance(message, str):
        return Wording(text=message)
    near = call.suggestions[: recovery.max_suggestions]
    hint = (
        f"The closest ones are: {', '.join(near)}."
        if near
        else "None of yours has a name like it; look at the list of your tools."
    )
    text = (
        f"There is no tool named {call.called!r}. {hint} Call a tool by its exact name, or go on "
        "without one."
    )
    if message is None:
        return Wording(text=text)
    return Wording(
        text=text,
        callable=message.callable,
        arguments={"called": call.called, "suggestions": list(near)},
    )


def text_tool_call(
    state: RecoveryNudges,
    rescue: TextToolCallRescue | None,
    *,
    tool: str | None,
    has_calls: bool,
) -> Advised:
    """Advise after a turn that wrote a tool call as text, so that the run goes on.

    Three such turns in a row are answered; the next one is left to end the run. What the text
    asked for is never run.

    Args:
        state: Nudges so far.
        rescue: None is off.
        tool: The tool that the text names, from `text_tool_calls.written_call`; None: none.
        has_calls: Whether the turn has real calls; such a turn is never advised.

    Implements: TOOL-13, NUDGE-09.
    """
    if tool is None or has_calls:
        return Advised(state.model_copy(update={"text_calls": 0}))
    if rescue is None or state.text_calls >= MAX_TEXT_CALL_RESCUES:
        return Advised(state)
    text = (
        f"Your last turn wrote a call of {tool} as text, and nothing was run. Call the tool "
        "itself, by the interface for tool calls; or answer in plain words if you meant no call."
    )
    told = state.model_copy(update={"text_calls": state.text_calls + 1})
    return Advised(told, (Nudge(reason="text-tool-call", wording=Wording(text=text)),))
