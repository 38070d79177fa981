"""One tool call: intent, hooks, body, result. A finished call is never run again."""

import asyncio
import difflib
import json
import logging
import time
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from activities.dependencies import Attempt, Dependencies
from activities.hook_bus import HookBus
from activities.loop_events import fire_loop_events, run_event, store_events
from activities.tool_bodies import BodyRunner, check_arguments
from activities.tool_output import bounded_output
from activities.toolbox.processes import kill_leftovers
from zidane_core.agent import Agent
from zidane_core.arguments import coerce_arguments
from zidane_core.authoring import Tool, ToolContext, ToolError
from zidane_core.content import (
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
    clean_text,
    tool_output_byte_length,
)
from zidane_core.errors import StoreError
from zidane_core.events import RunEvent
from zidane_core.hooks import (
    ToolAfter,
    ToolFailed,
    ToolGate,
    ToolHook,
    ToolStateCommitFailed,
    ToolTransform,
)
from zidane_core.manifest import RunManifest
from zidane_core.receipts import ToolCalled
from zidane_core.requests import CallTool
from zidane_core.tool_state import Snapshot, ToolStateController
from zidane_core.tools import CANCELLED_RESULT, INTERRUPTED_RESULT, ToolOutcome, blocked_result
from zidane_core.values import Json

log = logging.getLogger("zidane.tools")


async def call_tool(deps: Dependencies, request: CallTool, attempt: Attempt) -> ToolCalled:
    """Run one call, or return the receipt of one that has already finished.

    Implements: TOOL-06 to TOOL-10, TOOL-14, STATE-06, STATE-08, DUR-02, K-TEMPORAL-14.
    """
    manifest = await deps.manifest(request.manifest)
    spec = manifest.tool(request.name)
    start = await deps.store.begin_call(
        run_id=request.run_id,
        session_id=request.session_id,
        turn_id=request.turn_id,
        call_id=request.call_id,
        name=request.name,
        attempt=attempt.number,
        repeatable=spec is None or spec.repeatable or request.is_answered,
        read_only=spec is None or spec.read_only,
        now=request.now,
        events=(
            run_event(
                request,
                "tool:started",
                {"call_id": request.call_id, "name": request.name, "title": request.title},
                turn_id=request.turn_id,
            ),
            *store_events(request),
        ),
    )
    if start.receipt is not None:
        return ToolCalled.unpacked(start.receipt)
    hooks = deps.hooks(manifest)
    await fire_loop_events(hooks, request, attempt)
    call = _Call(deps, request, attempt, manifest, hooks, start.call)
    if start.interrupted:
        # What the lost worker had started must not go on behind the model's back.
        await kill_leftovers(request.call_id, run_id=request.run_id)
        return await call.finish(_Outcome(INTERRUPTED_RESULT, is_error=True, is_interrupted=True))
    if request.is_answered:
        return await call.finish(_Outcome(_as_output(request.answer)))
    return await call.run(start.state)


@dataclass
class _Outcome:
    """What a call came to, before it is stored."""

    output: ToolOutput
    is_error: bool = False
    is_interrupted: bool = False
    is_cancelled: bool = False
    outcome: ToolOutcome | None = None
    duration_ms: int | None = None
    metadata: Json = field(default_factory=dict[str, JsonValue])


class _Call:
    """One attempt at one call."""

    def __init__(
        self,
        deps: Dependencies,
        request: CallTool,
        attempt: Attempt,
        manifest: RunManifest,
        hooks: HookBus,
        block: ToolCallBlock,
    ) -> None:
        self._deps = deps
        self._request = request
        self._attempt = attempt
        self._manifest = manifest
        self._hooks = hooks
        self._block = block
        self._spec = manifest.tool(block.name)
        self._state = ToolStateController()
        self._hook_fields: dict[str, Any] = {
            "run_id": request.run_id,
            "session_id": request.session_id,
            "attempt": attempt.number,
            "depth": manifest.depth,
            "parent_run_id": manifest.parent_run_id,
            "parent_call_id": manifest.parent_call_id,
            "call_id": block.id,
            "turn_id": request.turn_id,
            "name": block.name,
            "display_name": self._spec.shown_name if self._spec is not None else block.name,
            "input": block.input,
        }

    async def run(self, snapshot: Snapshot) -> ToolCalled:
        """Go through gate, check, body and transforms; store the result."""
        self._state = ToolStateController(snapshot)
        began = time.monotonic()
        try:
            outcome = await self._outcome()
        except asyncio.CancelledError:
            if self._attempt.cancel_reason() == "shutdown":
                raise
            outcome = _Outcome(CANCELLED_RESULT, is_error=True, is_cancelled=True)
            self._state.discard(self._block.id)
            return await asyncio.shield(self.finish(outcome))
        outcome.duration_ms = int((time.monotonic() - began) * 1000)
        outcome.output = await bounded_output(
            self._deps.store, outcome.output, tool=self._block.name
        )
        if self._hooks.handles("tool:transform"):
            transform = ToolTransform(
                **self._hook_fields,
                result=outcome.output,
                is_error=outcome.is_error,
                metadata=outcome.metadata,
            )
            await self._hooks.fire("tool:transform", transform)
            outcome.output, outcome.is_error = transform.result, transform.is_error
        return await self.finish(outcome)

    async def _outcome(self) -> _Outcome:
        agent: Agent = self._deps.agent(self._manifest.agent)
        tool = agent.tools.get(self._block.name)
        if self._spec is None or tool is None:
            return await self._unknown()
        if self._hooks.handles("tool:gate"):
            gate = ToolGate(**self._hook_fields)
            await self._hooks.fire("tool:gate", gate)
            if gate.block:
                return _Outcome(blocked_result(gate.reason or "refused by a gate"), is_error=True)
            if gate.result is not None:
                return _Outcome(gate.result)
        if self._block.invalid is not None:
            return await self._rejected(f"the arguments are not valid JSON: {self._block.invalid}")
        arguments = coerce_arguments(self._block.input, self._spec.input_schema)
        problem = check_arguments(tool, arguments)
        if problem is not None:
            return await self._rejected(problem)
        if self._hooks.handles("tool:before"):
            await self._hooks.fire("tool:before", ToolHook(**self._hook_fields))
        return await self._body(tool, arguments)

    async def _body(self, tool: Tool, arguments: Json) -> _Outcome:
        request = self._request
        context = ToolContext(
            call_id=self._block.id,
            run_id=request.run_id,
            session_id=request.session_id,
            turn_id=request.turn_id,
            agent=self._manifest.agent,
            tool=self._block.name,
            workspace=self._manifest.workspace,
            state=self._state.begin(self._block.id),
            behavior=self._manifest.behavior,
            depth=self._manifest.depth,
            parent_run_id=self._manifest.parent_run_id,
            parent_call_id=self._manifest.parent_call_id,
            attempt=self._attempt.number,
            emit_progress=self._progress,
        )
        try:
            output = await BodyRunner(tool, context).run(arguments)
        except ToolError as error:
            self._state.discard(self._block.id)
            text = clean_text(str(error))
            return _Outcome(text, is_error=True, outcome=context.outcome, metadata=context.metadata)
        except Exception as error:
            self._state.discard(self._block.id)
            log.info("Tool %r raised", tool.name, exc_info=True)
            text = await self._failed("tool:error", f"{type(error).__name__}: {error}")
            return _Outcome(text, is_error=True, outcome=context.outcome, metadata=context.metadata)
        return _Outcome(output, outcome=context.outcome, metadata=context.metadata)

    async def _unknown(self) -> _Outcome:
        known = [spec.shown_name for spec in self._manifest.tools]
        near = tuple(difflib.get_close_matches(self._block.name, known, n=3))
        text = f"Unknown tool {self._block.name!r}. Known: {known}."
        return _Outcome(await self._failed("tool:unknown", text, near), is_error=True)

    async def _rejected(self, problem: str) -> _Outcome:
        text = f"Invalid arguments for {self._block.name!r}: {problem}. The tool was not run."
        return _Outcome(await self._failed("validation:reject", text), is_error=True)

    async def _failed(self, hook: str, text: str, suggestions: tuple[str, ...] = ()) -> str:
        text = clean_text(text)
        if not self._hooks.handles(hook):
            return text
        failed = ToolFailed(**self._hook_fields, error=text, result=text, suggestions=suggestions)
        return (await self._hooks.fire(hook, failed)).result

    def _progress(self, text: str) -> None:
        if self._manifest.stream:
            self._deps.store.events.emit(
                run_event(
                    self._request,
                    "tool:progress",
                    {"call_id": self._block.id, "text": clean_text(text)},
                    turn_id=self._request.turn_id,
                )
            )

    async def finish(self, outcome: _Outcome) -> ToolCalled:
        """Store the result with the call's state ops, and fire `tool:after`."""
        ops = self._state.commit(self._block.id)
        receipt = ToolCalled(
            is_error=outcome.is_error,
            ops=ops,
            output_bytes=tool_output_byte_length(outcome.output),
            outcome=outcome.outcome,
            is_interrupted=outcome.is_interrupted,
            is_cancelled=outcome.is_cancelled,
        )
        try:
            stored = await self._store(outcome, receipt)
        except StoreError as error:
            if not ops or error.details.get("retryable"):
                raise
            receipt = await self._without_ops(receipt, error)
            stored = await self._store(outcome, receipt)
        receipt = ToolCalled.unpacked(stored)
        if self._hooks.handles("tool:after"):
            after = ToolAfter(
                **self._hook_fields,
                result=outcome.output,
                is_error=outcome.is_error,
                metadata=outcome.metadata,
                outcome=outcome.outcome,
            )
            await self._hooks.fire("tool:after", after)
        return receipt

    async def _store(self, outcome: _Outcome, receipt: ToolCalled) -> Json:
        request = self._request
        done: RunEvent = run_event(
            request,
            "tool:done",
            {
                "call_id": self._block.id,
                "name": self._block.name,
                "title": request.title,
                "is_error": receipt.is_error,
                "bytes": receipt.output_bytes,
                "outcome": receipt.outcome,
                "duration_ms": outcome.duration_ms,
            },
            turn_id=request.turn_id,
        )
        return await self._deps.store.finish_call(
            run_id=request.run_id,
            session_id=request.session_id,
            turn_id=request.turn_id,
            call_id=self._block.id,
            name=self._block.name,
            attempt=self._attempt.number,
            result=ToolResultBlock(
                call_id=self._block.id,
                output=outcome.output,
                is_error=outcome.is_error,
                duration_ms=outcome.duration_ms,
                metadata=outcome.metadata or None,
            ),
            receipt=receipt.packed(),
            ops=receipt.ops,
            interrupted=outcome.is_interrupted,
            now=request.now,
            events=(done,),
        )

    async def _without_ops(self, receipt: ToolCalled, error: StoreError) -> ToolCalled:
        """Drop a rejected commit; the call itself stands (STATE-06)."""
        if self._hooks.handles("tool-state:commit-failed"):
            failed = ToolStateCommitFailed(
                run_id=self._request.run_id,
                session_id=self._request.session_id,
                attempt=self._attempt.number,
                call_id=self._block.id,
                ops=tuple(op.packed() for op in receipt.ops),
                error=error.message,
            )
            await self._hooks.fire("tool-state:commit-failed", failed)
        else:
            log.error("Tool state of call %r was not stored: %s", self._block.id, error.message)
        return receipt.model_copy(update={"ops": ()})


def _as_output(answer: JsonValue) -> str:
    return clean_text(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))
