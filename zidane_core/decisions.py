"""Decisions: typed questions about some evidence, the answers to them, and why there are none.

How questions become a prompt and a reply answers is in `questions.py`; which model is asked, and
how, is the worker's (`activities/decide.py`).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol

from pydantic import ConfigDict, Discriminator, JsonValue, TypeAdapter, ValidationError

from zidane_core.content import Prompt
from zidane_core.errors import DecisionError, InvalidRequestError
from zidane_core.values import Json, Tagged, UserInput, Value

DEFAULT_DECISION_TIMEOUT_MS = 5_000
"""Wall-clock cap of a decision when neither request nor agent sets one (DEC-03)."""

MAX_DECISION_TIMEOUT_MS = 600_000
"""A decision that takes longer is not one; a higher limit is refused."""
DECIDE = "decide"
"""Name of the activity that makes a client's decision."""


class CancelFlag(Protocol):
    """Whether work has been told to stop; `threading.Event` and `asyncio.Event` are such flags."""

    def is_set(self) -> bool:
        """Say whether it should stop."""
        ...


class _Question(Tagged):
    # A person types questions, so a field that does not exist is refused.
    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str
    """What is asked about the evidence, in plain words."""


class PredicateQuestion(_Question):
    """Is it so? Answered by true or false."""

    kind: Literal["predicate"] = "predicate"


class ChoiceQuestion(_Question):
    """Which one? Answered by one of the choices."""

    kind: Literal["choice"] = "choice"
    choices: tuple[str, ...]
    """At least two, all different."""


class ScoreQuestion(_Question):
    """How much? Answered by a number in a range, ends included; by default 0 to 1."""

    kind: Literal["score"] = "score"
    min: float = 0.0
    max: float = 1.0


DecisionQuestion = Annotated[
    PredicateQuestion | ChoiceQuestion | ScoreQuestion, Discriminator("kind")
]
"""One question."""

DecisionQuestions = Mapping[str, DecisionQuestion]
"""Questions by name; the answers come under the same names."""

DecisionInput = Mapping[str, JsonValue] | Prompt
"""The evidence: text, a JSON object, or prompt parts of text and images."""

DecisionInputKind = Literal["text", "object", "parts"]


class DecisionRequest(UserInput):
    """What is asked, about what.

    Implements: DEC-03, DEC-04, DEC-05.
    """

    input: DecisionInput
    questions: DecisionQuestions
    """At least one; names of 1 to 64 letters, digits, `_`, `-` and `.`."""
    model: str | None = None
    """`provider:model`, or a model of the provider that decides; None takes the agent's option,
    then the provider's own small model."""
    timeout_ms: int | None = None
    """Wall-clock cap, 1 to 600,000; None takes the agent's option, then 5,000."""


class DecisionOptions(UserInput):
    """How an agent makes decisions (`Agent(decisions=...)`).

    Implements: DEC-06.
    """

    enabled: bool = True
    """Without it every decision fails as `unavailable`."""
    model: str | None = None
    """As in DecisionRequest; None is the provider's own small model."""
    provider: str | None = None
    """None is the first provider of the run's and the agent's models that can answer now."""
    timeout_ms: int | None = None
    """1 to 600,000; None is 5,000."""


class PredicateAnswer(Tagged):
    """Whether it is so."""

    kind: Literal["predicate"] = "predicate"
    value: bool


class ChoiceAnswer(Tagged):
    """The choice, as the question wrote it."""

    kind: Literal["choice"] = "choice"
    value: str


class ScoreAnswer(Tagged):
    """The score, within the question's range."""

    kind: Literal["score"] = "score"
    value: float


class RefusalAnswer(Tagged):
    """The model did not answer this question, and why."""

    kind: Literal["refusal"] = "refusal"
    reason: str


DecisionAnswer = Annotated[
    PredicateAnswer | ChoiceAnswer | ScoreAnswer | RefusalAnswer, Discriminator("kind")
]
"""The answer to one question."""

DecisionAnswers = Mapping[str, DecisionAnswer]
"""An answer for every question, under its name."""


class DecisionUsage(Value):
    """What a decision used (DEC-10)."""

    input: int = 0
    """Input tokens, those of the prompt cache included."""
    output: int = 0
    cost: float | None = None
    """USD; None when neither the provider nor the price table knows."""


DecisionFailureReason = Literal[
    "unavailable",
    "auth",
    "unsupported",
    "timeout",
    "aborted",
    "rate_limited",
    "quota",
    "invalid",
    "error",
]
"""Why there are no answers (DEC-09)."""


class DecisionSuccess(Value):
    """A decision with its answers (DEC-07)."""

    ok: Literal[True]
    decision_id: str
    """Shared with the `decision:*` hooks (DEC-11)."""
    answers: DecisionAnswers
    provider: str
    model: str
    """The model that answered."""
    usage: DecisionUsage = DecisionUsage()
    id: str | None = None
    """The provider's own id of the call, when it gave one."""


class DecisionFailure(Value):
    """A decision without answers (DEC-08)."""

    ok: Literal[False]
    decision_id: str
    reason: DecisionFailureReason
    message: str
    """One plain sentence for people."""
    error: Json | None = None
    """The error behind it: `type`, `message` and `details` when there are any."""
    provider: str | None = None
    """None when none was selected, as `model`."""
    model: str | None = None


DecisionOutcome = Annotated[DecisionSuccess | DecisionFailure, Discriminator("ok")]
"""Answers or a reason; narrow on `ok`."""

DECISION_OUTCOME: TypeAdapter[DecisionSuccess | DecisionFailure] = TypeAdapter(DecisionOutcome)
"""Reads an outcome from JSON."""


class Decide(Protocol):
    """Makes decisions: `ctx.decide` in tools and hooks.

    Implements: DEC-01.
    """

    @property
    def available(self) -> bool:
        """Say whether a decision could be made now; cheap, asks nobody.

        True when a provider with a key and a model is there; no promise that it answers.

        Implements: DEC-02.
        """
        ...

    async def __call__(
        self,
        request: DecisionRequest | Mapping[str, Any],
        *,
        throw: bool = False,
        signal: CancelFlag | None = None,
    ) -> DecisionOutcome:
        """Ask a small model, once.

        Args:
            request: The evidence and the questions.
            throw: Raise instead of returning a failure.
            signal: Ends the decision as `aborted` once it is set.

        Raises:
            DecisionError: Only with `throw`.
        """
        ...

    def wait(
        self,
        request: DecisionRequest | Mapping[str, Any],
        *,
        throw: bool = False,
        signal: CancelFlag | None = None,
    ) -> DecisionOutcome:
        """Do the same from a plain tool body or a plain handler, which run in threads.

        Raises:
            InvalidRequestError: Called in async code, which it would block for ever.
            DecisionError: Only with `throw`.
        """
        ...


class NoDecisions:
    """Stands for `decide` where no worker is behind a context, as in an author's unit tests."""

    available = False

    async def __call__(
        self,
        request: DecisionRequest | Mapping[str, Any],
        *,
        throw: bool = False,
        signal: CancelFlag | None = None,
    ) -> DecisionOutcome:
        """Return a failure of reason `unavailable`."""
        return self.wait(request, throw=throw, signal=signal)

    def wait(
        self,
        request: DecisionRequest | Mapping[str, Any],
        *,
        throw: bool = False,
        signal: CancelFlag | None = None,
    ) -> DecisionOutcome:
        """Return a failure of reason `unavailable`."""
        del request, signal
        message = "No decisions can be made here: no worker is behind this context."
        failure = DecisionFailure(ok=False, decision_id="", reason="unavailable", message=message)
        return settled(failure, throw=throw)


def settled(outcome: DecisionOutcome, *, throw: bool) -> DecisionOutcome:
    """Return the outcome; with `throw` a failure is raised.

    Raises:
        DecisionError: `details` hold reason, decision_id, provider, model and error where known.

    Implements: ERR-05.
    """
    if not throw or isinstance(outcome, DecisionSuccess):
        return outcome
    details = outcome.packed()
    for field in ("ok", "message"):
        details.pop(field)
    raise DecisionError(outcome.message, **details)


def parse_decision(given: Any) -> DecisionRequest:
    """Return a request, read from JSON unless it is one already.

    Raises:
        InvalidRequestError: Names the first field that is wrong.
    """
    if isinstance(given, DecisionRequest):
        return given
    try:
        return DecisionRequest.model_validate(given)
    except ValidationError as error:
        errors = error.errors()
        # A list can only have been meant as prompt parts, whose own errors come last.
        is_list = isinstance(given, Mapping) and isinstance(given.get("input"), list | tuple)
        first = errors[-1] if errors[0]["loc"][:1] == ("input",) and is_list else errors[0]
        path = ".".join(str(part) for part in first["loc"]) or "request"
        if first["loc"][:1] == ("input",) and not is_list:
            path, text = "input", "It is text, a JSON object, or prompt parts"
        else:
            text = first["msg"]
        raise InvalidRequestError(
            f"Bad value for {path!r} in the decision request: {str(first['input'])[:200]!r}. "
            f"{text}.",
            field=path,
        ) from error


def input_kind(input: DecisionInput) -> DecisionInputKind:
    """Say of which kind the evidence is.

    Implements: DEC-04.
    """
    if isinstance(input, str):
        return "text"
    return "object" if isinstance(input, Mapping) else "parts"
