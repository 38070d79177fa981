"""What the rules answer: whether a call runs, what the model is told, what watchers see."""

from dataclasses import dataclass
from typing import Literal

from zidane_core.call_facts import Wording
from zidane_core.errors import AgentAbortedError
from zidane_core.session import InjectedTurnReason
from zidane_core.values import Json, Value

RuleEventName = Literal["tool-budget:exceeded", "repeat-guard:exceeded", "budget:exceeded"]


@dataclass(frozen=True)
class RuleEvent:
    """An event that the loop notes."""

    name: RuleEventName
    fields: Json


class Nudge(Value):
    """A user turn of the loop's own, after the results of the turn that it answers (CTL-12)."""

    reason: InjectedTurnReason
    wording: Wording


class RecordedCall(Value):
    """Where the store has a result: the turn that made the call, and the call."""

    turn_id: str
    call_id: str


@dataclass(frozen=True)
class Allow:
    """The call runs."""


ALLOW = Allow()


@dataclass(frozen=True)
class Steer:
    """The call runs; the text is added to the end of its result by the activity that runs it."""

    wording: Wording


@dataclass(frozen=True)
class Block:
    """The call does not run; the text, which starts with `Blocked: `, is its error result."""

    wording: Wording


@dataclass(frozen=True)
class Replay:
    """The call does not run: a recorded result is its result, and goes through the hooks."""

    recorded: RecordedCall
    wording: Wording | None = None
    """Added to the end of the result, as with `Steer`."""


@dataclass(frozen=True)
class Abort:
    """The call does not run, with this error result, and the run ends as `aborted`."""

    error: AgentAbortedError
    wording: Wording


Verdict = Allow | Steer | Block | Replay | Abort
"""What becomes of one call."""

Prior = Literal["blocked", "replayed"]
"""What an earlier gate made of a call that a rule looks at; None is nothing."""
