"""A run's structured output: its schema checked, answers judged, the value read back."""

import json
from functools import lru_cache

from pydantic import JsonValue

from activities.schemas import fault_of_schema, problem_of
from zidane_core.arguments import coerce_arguments
from zidane_core.authoring import Tool
from zidane_core.content import ToolCallBlock, clip_utf8
from zidane_core.errors import InvalidRequestError
from zidane_core.manifest import RunManifest
from zidane_core.output import (
    ACCEPTED,
    MAX_OUTPUT_BYTES,
    OUTPUT_TOOL,
    OutputRef,
    OutputVerdict,
    output_spec,
    reminder,
    unwrapped,
    values_in,
    wire_schema,
)
from zidane_core.session import Turn
from zidane_core.usage import TurnFinishReason
from zidane_core.values import Json

MAX_REFUSED_BYTES = 32_768
"""Head of a refused raw answer that a failed run reports; the transcript has the whole."""


def check_output(manifest: RunManifest) -> None:
    """Refuse a schema that is none, or one whose tool the agent has already.

    Raises:
        InvalidRequestError: Says which.

    Implements: OUT-01.
    """
    schema = manifest.behavior.output_schema
    if schema is None:
        return
    fault = fault_of_schema(wire_schema(schema))
    if fault is not None:
        raise InvalidRequestError(f"behavior.schema is not a JSON Schema: {fault}.")
    if any(OUTPUT_TOOL in (tool.name, tool.alias) for tool in manifest.tools):
        raise InvalidRequestError(
            f"A run with a schema has a tool {OUTPUT_TOOL!r} of its own; rename the agent's."
        )


def output_tool(schema: Json) -> Tool:
    """Return the tool that takes the final answer; its arguments are checked like any other's."""
    return _tool(json.dumps(schema))


@lru_cache(maxsize=128)
def _tool(schema: str) -> Tool:
    async def accept(**_: object) -> str:
        return ACCEPTED

    return Tool(output_spec(json.loads(schema)), accept, None, None)


def verdict_on_text(
    schema: Json, text: str, finish_reason: TurnFinishReason, *, is_native: bool
) -> OutputVerdict:
    """Judge the text of a turn without calls as the run's final answer.

    Args:
        schema: The run's schema.
        text: The turn's text.
        finish_reason: A cut answer is none.
        is_native: Whether the provider was held to the schema; else the tool is asked for.

    Implements: OUT-02, K-OUTPUT-01.
    """
    if finish_reason == "length":
        problem = "The answer was cut off by the output limit; be shorter."
        return OutputVerdict(state="missing", note=reminder(problem, is_native=is_native))
    first_problem: str | None = None
    for value in values_in(schema, text):
        problem = problem_of_answer(schema, value)
        if problem is None:
            return OutputVerdict(state="accepted")
        first_problem = first_problem or problem
    if first_problem is None:
        problem = "The final answer was not given in the form that was asked for."
        return OutputVerdict(state="missing", note=reminder(problem, is_native=is_native))
    problem = f"The answer does not fit the schema: {first_problem}."
    return OutputVerdict(state="invalid", note=reminder(problem, is_native=is_native))


def verdict_on_call(text: str, *, is_error: bool) -> OutputVerdict:
    """Return the verdict that the result of a call of the output tool means."""
    if not is_error:
        return OutputVerdict(state="accepted")
    return OutputVerdict(state="invalid", note=clip_utf8(text, 600))


def problem_of_answer(schema: Json, value: Json) -> str | None:
    """Return what is wrong with an object of the wire schema, its size included; or None."""
    wanted = wire_schema(schema)
    checked = coerce_arguments(value, wanted)
    size = len(json.dumps(checked, ensure_ascii=False).encode())
    if size > MAX_OUTPUT_BYTES:
        return f"it has {size} bytes, at most {MAX_OUTPUT_BYTES} are taken"
    return problem_of(wanted, checked)


def read_answer(schema: Json, turn: Turn, ref: OutputRef) -> tuple[JsonValue, str]:
    """Return the value of an accepted answer (None for one that does not fit) and its raw text."""
    if ref.call_id is None:
        raw = turn.text
        values = list(values_in(schema, raw))
    else:
        call = _call(turn, ref.call_id)
        raw = call.invalid or json.dumps(call.input, ensure_ascii=False)
        values = [] if call.invalid is not None else [call.input]
    for value in values:
        if problem_of_answer(schema, value) is None:
            return unwrapped(schema, coerce_arguments(value, wire_schema(schema))), raw
    return None, clip_utf8(raw, MAX_REFUSED_BYTES)


def _call(turn: Turn, call_id: str) -> ToolCallBlock:
    return next(call for call in turn.tool_calls if call.id == call_id)
