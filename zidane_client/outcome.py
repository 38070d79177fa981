"""How a workflow ended, as the caller of `result` sees it."""

from typing import Any, NoReturn, cast

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
    TimeoutError,
)

from zidane_core.errors import AgentAbortedError, AgentError, OperationTimeoutError
from zidane_core.runs import RunResult
from zidane_core.session import RunRecord
from zidane_core.values import Json


def raise_failure(failure: WorkflowFailureError, ids: Json) -> NoReturn:
    """Raise what a failed workflow means.

    Args:
        failure: What Temporal raised.
        ids: `session_id` and `run_id`, kept in the error's details.

    Raises:
        AgentError: Of the class that ended the run, with `details["result"]` when there is one.
        AgentAbortedError: The workflow was cancelled through Temporal.
    """
    cause = failure.cause
    match cause:
        case ApplicationError():
            raise application_failure(cause, ids) from failure
        case CancelledError():
            raise AgentAbortedError(
                "The run was cancelled through Temporal; its turns are kept.", **ids
            ) from failure
        case TerminatedError():
            raise AgentError(
                f"The run was terminated through Temporal ({cause.message}), so it wrote no "
                "result; its turns are in the store.",
                **ids,
            ) from failure
        case TimeoutError():
            raise OperationTimeoutError(
                "The workflow ran into its own time limit; its turns are in the store.", **ids
            ) from failure
        case _:
            raise AgentError(f"The run failed: {cause or failure}", **ids) from failure


def application_failure(cause: ApplicationError, ids: Json) -> AgentError:
    """Return the error that a run ended with."""
    packed: Any = cause.details[0] if cause.details else None
    result = cast("dict[str, Any]", packed) if isinstance(packed, dict) else {}
    plain: Json = {"type": cause.type, "message": cause.message}
    named: Json = result.get("error") or plain
    error = AgentError.from_dict(named)
    error.details.update(ids)
    if result:
        error.details["result"] = result
    return error


def result_of_record(record: RunRecord, text: str) -> RunResult:
    """Return the result of a run whose workflow the server no longer knows.

    Raises:
        AgentError: The run had failed, or had not ended as far as the store knows.
    """
    ids = {"session_id": record.session_id, "run_id": record.run_id}
    if record.status == "running":
        raise AgentError(
            f"Run {record.run_id!r} is not on the Temporal server, and by the store it had not "
            "ended. Check TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.",
            **ids,
        )
    result = RunResult(
        status=record.status,
        text=text,
        output=record.stats.output,
        session_id=record.session_id,
        run_id=record.run_id,
        head=record.head,
        stats=record.stats,
        error=record.error,
    )
    if record.error is not None:
        error = AgentError.from_dict(record.error)
        error.details.update({**ids, "result": result.full()})
        raise error
    return result
