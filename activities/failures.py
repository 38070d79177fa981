"""From an exception in an activity to what Temporal should do with it: one table."""

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from zidane_core.errors import AgentError, InternalError, StoreError, UnknownAgentError

MAX_UNEXPECTED_ATTEMPTS = 5
"""A fault of ours that comes back this often will come back for ever: the run is parked."""


def application_error(error: Exception, *, attempt: int) -> BaseException:
    """Return what an activity should raise for an exception.

    | exception | tried again |
    |---|---|
    | StoreError with `retryable` | yes, without end: the store comes back |
    | UnknownAgentError | yes: another worker may have the agent |
    | any other AgentError | no: it ends the run, typed, or becomes the call's result |
    | anything else | four times, then InternalError, which parks the run |
    """
    match error:
        case UnknownAgentError():
            return _typed(error, is_final=False)
        case StoreError():
            return _typed(error, is_final=not error.details.get("retryable"))
        case AgentError():
            return _typed(error, is_final=True)
        case ApplicationError():
            return error
        case _ if attempt < MAX_UNEXPECTED_ATTEMPTS:
            return error
        case _:
            found = InternalError(
                f"Internal error: {type(error).__name__}: {error} (after {attempt} attempts). "
                "The worker's log has the trace; deploy a fix, then resume."
            )
            found.__cause__ = error
            return _typed(found, is_final=True)


def worker_shutdown() -> ApplicationError:
    """Return the error of an attempt that its worker's shutdown ended: tried again elsewhere."""
    return ApplicationError(
        "The worker is shutting down; the attempt is made again by another worker.",
        type="WorkerShutdown",
        category=ApplicationErrorCategory.BENIGN,
    )


def _typed(error: AgentError, *, is_final: bool) -> ApplicationError:
    return ApplicationError(error.message, error.to_dict(), type=error.code, non_retryable=is_final)
