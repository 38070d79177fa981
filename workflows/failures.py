"""From an activity that gave up to the receipt that the loop takes."""

import asyncio
from typing import Any, cast

from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    TimeoutError,
    is_cancelled_exception,
)

from zidane_core.errors import OperationTimeoutError
from zidane_core.receipts import RequestFailed


def failed_receipt(error: BaseException) -> RequestFailed:
    """Return what the loop is told of a request that raised."""
    if isinstance(error, asyncio.CancelledError) or is_cancelled_exception(error):
        return RequestFailed(type="Cancelled", message="cancelled", is_cancelled=True)
    cause = error.cause if isinstance(error, ActivityError) else error
    match cause:
        case CancelledError():
            return RequestFailed(type="Cancelled", message="cancelled", is_cancelled=True)
        case ApplicationError():
            packed = cause.details[0] if cause.details else None
            details: Any = (
                cast(dict[str, Any], packed).get("details") if isinstance(packed, dict) else None
            )
            return RequestFailed(
                type=cause.type or "ApplicationError",
                message=cause.message,
                details=cast(dict[str, Any], details) if isinstance(details, dict) else {},
            )
        case TimeoutError():
            return RequestFailed(
                type=OperationTimeoutError.code,
                message=f"The activity timed out ({cause.message}).",
            )
        case _:
            return RequestFailed(type=type(cause).__name__, message=str(cause))
