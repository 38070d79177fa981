"""Checks JSON against a JSON Schema and says in one line what is wrong."""

import json
from functools import lru_cache
from typing import Any, Protocol, cast

import jsonschema_rs

from zidane_core.values import Json

_MAX_PROBLEMS = 5
_MAX_PROBLEM_CHARS = 300


class _Validator(Protocol):
    def iter_errors(self, instance: Any) -> Any: ...


def problem_of(schema: Json, value: Any) -> str | None:
    """Return what is wrong with a value, up to five faults with their paths; None when nothing.

    Raises:
        ValueError: The schema itself is none.

    Implements: TOOL-08, OUT-01.
    """
    errors = _compiled(json.dumps(schema)).iter_errors(value)
    problems = [_line(error) for _, error in zip(range(_MAX_PROBLEMS), errors, strict=False)]
    return "; ".join(problems) if problems else None


def fault_of_schema(schema: Json) -> str | None:
    """Return why an object is not a JSON Schema that can be checked; None when it is one."""
    try:
        _compiled(json.dumps(schema))
    except ValueError as error:
        return str(error).splitlines()[0]
    return None


@lru_cache(maxsize=512)
def _compiled(schema: str) -> _Validator:
    return cast(_Validator, jsonschema_rs.validator_for(json.loads(schema)))


def _line(error: Any) -> str:
    path = ".".join(str(part) for part in error.instance_path)
    message = str(error.message)
    if len(message) > _MAX_PROBLEM_CHARS:
        message = f"{message[: _MAX_PROBLEM_CHARS - 1]}…"
    return f"{path}: {message}" if path else message
