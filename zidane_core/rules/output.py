"""Does the run have its structured output, and may the model try again."""

from zidane_core.behavior import AgentBehavior
from zidane_core.errors import AgentOutputError
from zidane_core.output import OutputRef
from zidane_core.values import Json, Value

NO_ANSWER = "The turn ended without an answer. Give the final answer in the form asked for."


class OutputProgress(Value):
    """Answers so far."""

    is_wanted: bool = False
    """The run has a schema."""
    answer: OutputRef | None = None
    """The last answer, accepted or not."""
    is_accepted: bool = False
    refused: tuple[str, ...] = ()
    """Why each refused answer was refused, in order."""


def accepted(progress: OutputProgress, answer: OutputRef) -> OutputProgress:
    """Return the progress with an answer that fits; a later one takes an earlier one's place."""
    return progress.model_copy(update={"answer": answer, "is_accepted": True})


def refused(progress: OutputProgress, answer: OutputRef, why: str) -> OutputProgress:
    """Return the progress with an answer that does not fit; one that fitted before stands."""
    if progress.is_accepted:
        return progress
    return progress.model_copy(update={"answer": answer, "refused": (*progress.refused, why)})


def may_retry(progress: OutputProgress, behavior: AgentBehavior) -> bool:
    """Say whether the model is asked again (OUT-02, K-OUTPUT-01)."""
    return len(progress.refused) <= behavior.max_output_retries


def unmet(progress: OutputProgress) -> AgentOutputError | None:
    """Return the error of a run that ends without the output it owes; None when it owes none.

    The end of the run adds `last`, the last raw answer, to the details.

    Implements: OUT-01, OUT-02, K-OUTPUT-02.
    """
    if not progress.is_wanted or progress.is_accepted:
        return None
    attempts = len(progress.refused)
    why = f" The last reason: {progress.refused[-1]}" if progress.refused else ""
    return AgentOutputError(
        f"The run ended without an answer that fits its schema, after {attempts} refused "
        f"answers.{why} The transcript is kept; loosen the schema, or raise "
        "behavior.max_output_retries.",
        attempts=attempts,
        reasons=list(progress.refused),
    )


def with_last(error: Json, last: str) -> Json:
    """Return a packed error with the last raw answer in its details."""
    details = error.get("details")
    known: Json = details if isinstance(details, dict) else {}
    return {**error, "details": {**known, "last": last}}
