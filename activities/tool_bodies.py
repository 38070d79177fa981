"""Runs an author's tool body: argument check, thread or task, time limit, normalised output."""

import asyncio
import inspect
import json
import threading
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from activities.schemas import problem_of
from zidane_core.authoring import Tool, ToolContext, ToolError
from zidane_core.content import ResultContent, ToolOutput, clean_json, clean_text
from zidane_core.values import Json

_RESULT_BLOCKS: TypeAdapter[tuple[ResultContent, ...]] = TypeAdapter(tuple[ResultContent, ...])
THREAD_GRACE_S = 5.0
"""How long a plain body that was told to stop may take before its thread is left behind."""


def check_arguments(tool: Tool, arguments: Json) -> str | None:
    """Return what is wrong with the arguments by the tool's schema, or None.

    Implements: TOOL-08.
    """
    return problem_of(tool.spec.input_schema, arguments)


class BodyRunner:
    """One run of one body."""

    def __init__(self, tool: Tool, context: ToolContext) -> None:
        self._tool = tool
        self._context = context

    async def run(self, arguments: Json) -> ToolOutput:
        """Call the body with checked arguments and return its output, normalised.

        Raises:
            ToolError: The body raised it, the arguments do not fit its types, or the tool's
                time limit passed.
            Exception: Whatever else the body raised.

        Implements: K-TEMPORAL-04.
        """
        kwargs = self._arguments(arguments)
        limit_s = self._tool.spec.timeout_ms / 1000
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                output = await self._call(kwargs)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ToolError(
                f"{self._tool.name} did not finish within {limit_s:g} s and was stopped."
            ) from None
        return normalised_output(output)

    def _arguments(self, arguments: Json) -> dict[str, Any]:
        model = self._tool.arguments
        kwargs: dict[str, Any] = dict(arguments)
        if model is not None:
            try:
                parsed = model.model_validate(arguments)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"])
                raise ToolError(f"Invalid argument {where!r}: {first['msg']}.") from error
            kwargs = {name: getattr(parsed, name) for name in type(parsed).model_fields}
        if self._tool.takes_ctx is not None:
            kwargs[self._tool.takes_ctx] = self._context
        return kwargs

    async def _call(self, kwargs: dict[str, Any]) -> Any:
        body = self._tool.body
        if inspect.iscoroutinefunction(body):
            return await body(**kwargs)
        # Plain bodies may block, so each gets a thread, and a flag instead of a cancellation.
        stop = threading.Event()
        self._context.cancelled = stop
        thread = asyncio.ensure_future(asyncio.to_thread(body, **kwargs))
        try:
            output = await asyncio.shield(thread)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait({thread}, timeout=THREAD_GRACE_S)
            raise
        return await output if inspect.isawaitable(output) else output


def normalised_output(output: Any) -> ToolOutput:
    """Return a body's output as text or blocks; other JSON values and models become JSON text.

    Raises:
        ToolError: The output is neither.
    """
    if output is None:
        return ""
    if isinstance(output, str):
        return clean_text(output)
    blocks = _as_blocks(output)
    if blocks is not None:
        return blocks
    try:
        if isinstance(output, BaseModel):
            return clean_text(output.model_dump_json())
        return json.dumps(clean_json(output), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ToolError(
            f"The tool returned {type(output).__name__}, which is neither text, content blocks "
            f"nor JSON: {error}."
        ) from error


def _as_blocks(output: Any) -> tuple[ResultContent, ...] | None:
    try:
        return _RESULT_BLOCKS.validate_python(output) or None
    except ValidationError:
        return None
