"""Structured output: the tool that takes a run's final answer, and reading it out of text.

A provider that can be held to a schema is (its answer's text is then JSON); every other one gets
a tool whose arguments are the answer. Either way the answer is checked against the schema here
and not believed. An answer in prose that holds fitting JSON counts too.
"""

import json
import re
from collections.abc import Iterator
from typing import Literal

from pydantic import JsonValue

from zidane_core.tools import ToolSpec
from zidane_core.values import Json, Value

OUTPUT_TOOL = "final_output"
"""Name of the tool; an agent with a schema may not have one of its own by that name."""
ACCEPTED = "Output accepted."
MAX_OUTPUT_BYTES = 131_072
"""Largest output; it travels in the run's result, whose payload ends at 256 KiB."""
MAX_NOTE_CHARS = 600

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL)
_WRAPPED = "value"


class OutputVerdict(Value):
    """What an activity found of a turn's answer or of a call of the output tool."""

    state: Literal["accepted", "invalid", "missing"]
    note: str = ""
    """What the model is told when it is refused; at most 600 characters."""


class OutputRef(Value):
    """Where an answer stands in the store."""

    turn_id: str
    call_id: str | None = None
    """The call of the output tool; None when the turn's text is the answer."""


def is_wrapped(schema: Json) -> bool:
    """Say whether the answer travels as `{"value": ...}`: services take objects only."""
    return schema.get("type") != "object"


def wire_schema(schema: Json) -> Json:
    """Return the schema of an object that holds the answer; definitions stay at the root."""
    if not is_wrapped(schema):
        return schema
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "definitions")}
    kept = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return {
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
        "additionalProperties": False,
        **kept,
    }


def unwrapped(schema: Json, value: Json) -> JsonValue:
    """Return the answer that a checked object of `wire_schema` holds."""
    return value[_WRAPPED] if is_wrapped(schema) else value


def output_spec(schema: Json) -> ToolSpec:
    """Return the tool whose arguments are the final answer.

    Implements: OUT-02.
    """
    return ToolSpec(
        name=OUTPUT_TOOL,
        description=(
            "Gives the final answer of the task. Call it once, when the work is done; an answer "
            "that is not given by this tool does not count."
        ),
        input_schema=wire_schema(schema),
        concurrency_safe=True,
        read_only=True,
        quick=True,
    )


def objects_in(text: str) -> Iterator[Json]:
    """Yield the JSON objects that a text may mean as its answer, the likeliest first.

    The whole text, then its fenced blocks from the last to the first.

    Implements: K-OUTPUT-01.
    """
    for piece in (text, *reversed(_FENCE.findall(text))):
        try:
            found = json.loads(piece)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def values_in(schema: Json, text: str) -> Iterator[Json]:
    """Yield objects of `wire_schema` that the text may mean; a bare answer is wrapped."""
    if not is_wrapped(schema):
        yield from objects_in(text)
        return
    for found in objects_in(text):
        if set(found) == {_WRAPPED}:
            yield found
    for piece in (text, *reversed(_FENCE.findall(text))):
        try:
            yield {_WRAPPED: json.loads(piece)}
        except (ValueError, RecursionError):
            continue


def reminder(problem: str, *, is_native: bool) -> str:
    """Return what a model is told whose answer was refused or is missing."""
    how = "as JSON only, with no other text" if is_native else f"by calling {OUTPUT_TOOL}"
    room = MAX_NOTE_CHARS - 120
    said = problem if len(problem) <= room else f"{problem[:room]}…"
    return f"{said} Give the final answer {how}."
