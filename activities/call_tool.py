"""One tool call: intent, pipeline, result. A finished call is never run again."""

import asyncio
import json
import logging

from pydantic import JsonValue

from activities.dependencies import Attempt, Dependencies
from activities.hook_bus import HookBus
from activities.loop_events import fire_loop_events, run_event, store_events
from activities.output import verdict_on_call
from activities.tool_pipeline import Outcome, ToolPipeline
from activities.toolbox.processes import kill_leftovers
from zidane_core.content import (
    ToolCallBlock,
    ToolResultBlock,
    clean_text,
    tool_output_byte_length,
    tool_result_to_text,
)
from zidane_core.context.stale_reads import OUTCOME_KEY, stale_read_notice
from zidane_core.errors import StoreError
from zidane_core.hooks import ToolStateCommitFailed
from zidane_core.manifest import RunManifest
from zidane_core.output import OUTPUT_TOOL, OutputVerdict
from zidane_core.receipts import ToolCalled
from zidane_core.requests import CallTool
from zidane_core.tool_state import Snapshot, ToolStateController
from zidane_core.tools import CANCELLED_RESULT, INTERRUPTED_RESULT
from zidane_core.values import Json

log = logging.getLogger("zidane.tools")


async def call_tool(deps: Dependencies, request: CallTool, attempt: Attempt) -> ToolCalled:
    """Run one call, or return the receipt of one that has already finished.

    Implements: TOOL-06 to TOOL-10, STATE-06, STATE-08, DUR-02, K-TEMPORAL-14.
    """
    manifest = await deps.manifest(request.manifest)
    spec = manifest.tool(request.name)
    is_read_only = spec is None or spec.read_only
    events = (
        run_event(
            request,
            "tool:started",
            {"call_id": request.call_id, "name": request.name, "title": request.title},
            turn_id=request.turn_id,
            origin="started",
        ),
        *store_events(request),
    )
    start = await deps.store.begin_call(
        run_id=request.run_id,
        session_id=request.session_id,
        turn_id=request.turn_id,
        call_id=request.call_id,
        name=request.name,
        attempt=attempt.number,
        repeatable=spec is None or spec.repeatable or request.is_answered,
        read_only=is_read_only,
        now=request.now,
        events=() if is_read_only else events,
    )
    if start.receipt is not None:
        return ToolCalled.unpacked(start.receipt)
    if is_read_only:
        # Such a call writes no intent, so its events go with the process's next flush.
        for event in events:
            deps.store.events.emit(event)
    hooks = deps.hooks(manifest)
    await fire_loop_events(hooks, request, attempt)
    call = _Call(deps, request, attempt, manifest, hooks, start.call, start.state)
    if start.interrupted:
        # What the lost worker had started must not go on behind the model's back.
        await kill_leftovers(request.call_id, run_id=request.run_id)
        return await call.finish(Outcome(INTERRUPTED_RESULT, is_error=True, is_interrupted=True))
    if request.is_answered:
        return await call.finish(Outcome(_as_output(request.answer)))
    return await call.run()


class _Call:
    """One attempt at one call of a model."""

    def __init__(
        self,
        deps: Dependencies,
        request: CallTool,
        attempt: Attempt,
        manifest: RunManifest,
        hooks: HookBus,
        block: ToolCallBlock,
        snapshot: Snapshot,
    ) -> None:
        self._deps = deps
        self._request = request
        self._attempt = attempt
        self._manifest = manifest
        self._hooks = hooks
        self._block = block
        self._state = ToolStateController(snapshot)
        self._pipeline = ToolPipeline(
            deps, request, attempt, manifest, hooks, block, self._state.begin(block.id)
        )

    async def run(self) -> ToolCalled:
        """Run the pipeline and store what comes of it; a client's stop is a result too."""
        try:
            outcome = await self._pipeline.run()
        except asyncio.CancelledError:
            if self._attempt.cancel_reason() == "shutdown":
                raise
            self._state.discard(self._block.id)
            stopped = Outcome(CANCELLED_RESULT, is_error=True, is_cancelled=True)
            return await asyncio.shield(self.finish(stopped))
        return await self.finish(outcome)

    async def finish(self, outcome: Outcome) -> ToolCalled:
        """Store the result with the call's state ops, and fire `tool:after`."""
        await self._tell_stale_reads(outcome)
        ops = self._state.commit(self._block.id)
        receipt = ToolCalled(
            is_error=outcome.is_error,
            ops=ops,
            output_bytes=tool_output_byte_length(outcome.output),
            outcome=outcome.outcome,
            is_interrupted=outcome.is_interrupted,
            is_cancelled=outcome.is_cancelled,
            output=self._verdict(outcome),
        )
        try:
            stored = await self._store(outcome, receipt)
        except StoreError as error:
            if not ops or error.details.get("retryable"):
                raise
            receipt = await self._without_ops(receipt, error)
            stored = await self._store(outcome, receipt)
        await self._pipeline.after(outcome)
        return ToolCalled.unpacked(stored)

    def _verdict(self, outcome: Outcome) -> OutputVerdict | None:
        is_answer = self._block.name == OUTPUT_TOOL and self._manifest.output_tool is not None
        if not is_answer or outcome.is_cancelled or outcome.is_interrupted:
            return None
        return verdict_on_call(tool_result_to_text(outcome.output), is_error=outcome.is_error)

    async def _tell_stale_reads(self, outcome: Outcome) -> None:
        """Add to an edit's own result that an earlier read is no longer true (FILE-08)."""
        if self._manifest.behavior.elide_stale_reads != "notice" or outcome.is_error:
            return
        request = self._request
        turns = await self._deps.store.path(request.session_id, request.turn_id)
        result = self._result(outcome)
        notice = stale_read_notice(turns, request.run_id, self._block, result)
        if notice is not None and isinstance(outcome.output, str):
            outcome.output = f"{outcome.output}\n{notice}"

    def _result(self, outcome: Outcome) -> ToolResultBlock:
        reported: Json = {} if outcome.outcome is None else {OUTCOME_KEY: outcome.outcome}
        return ToolResultBlock(
            call_id=self._block.id,
            output=outcome.output,
            is_error=outcome.is_error,
            duration_ms=outcome.duration_ms,
            metadata={**outcome.metadata, **reported} or None,
            calls=outcome.calls,
        )

    async def _store(self, outcome: Outcome, receipt: ToolCalled) -> Json:
        request = self._request
        done = run_event(
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
            result=self._result(outcome),
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
