"""From how a command ended to its exit code, and the one line that says why it failed."""

import json
import sys
from enum import IntEnum
from typing import Any, cast

from zidane_core.errors import (
    AgentAbortedError,
    AgentError,
    ServerUnreachableError,
    StoreError,
    UsageError,
)
from zidane_core.runs import RunResult


class Exit(IntEnum):
    """The exit codes of every command."""

    COMPLETED = 0
    FAILED = 1
    USAGE = 2
    ABORTED = 3
    WAITS = 4
    """Paused, parked or suspended: `resume` goes on."""
    OUT_OF_REACH = 5
    """The Temporal server or the session store."""
    INTERRUPTED = 130
    UNREAD = 141
    """Nobody reads the output any more (a closed pipe)."""


def exit_of_result(result: RunResult) -> Exit:
    """Return the code for a run that ended without raising."""
    match result.status:
        case "completed":
            return Exit.COMPLETED
        case "aborted":
            return Exit.ABORTED
        case "paused" | "suspended":
            return Exit.WAITS
        case "error":
            return Exit.FAILED


def exit_of_error(error: AgentError) -> Exit:
    """Return the code for an error; one that a run ended with is that run's failure."""
    match error:
        case UsageError():
            return Exit.USAGE
        case AgentAbortedError():
            return Exit.ABORTED
        case ServerUnreachableError() | StoreError() if "result" not in error.details:
            return Exit.OUT_OF_REACH
        case _:
            return Exit.FAILED


def say_error(error: AgentError, *, as_json: bool) -> None:
    """Print an error as one line on stderr; with `--json` also as the document on stdout."""
    line = " ".join(error.message.split()) if "\n" not in error.message else error.message
    sys.stderr.write(f"Error: {line}\n")
    if as_json:
        print_json(error_document(error))


def error_document(error: AgentError) -> Any:
    """Return what `--json` prints for an error: the run's result when there is one."""
    result = error.details.get("result")
    if isinstance(result, dict):
        return cast("dict[str, Any]", result)
    return {"status": "error", "error": {"type": error.code, "message": error.message}}


def print_json(document: Any) -> None:
    """Print the one JSON document of a command on stdout."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
