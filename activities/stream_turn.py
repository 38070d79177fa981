"""One model turn: append what the loop asked for, call the model, store the assistant turn."""

import asyncio
from collections.abc import Sequence
from typing import Any

from activities.dependencies import Attempt, Dependencies
from activities.hook_bus import HookBus
from activities.live_stream import LiveStream
from activities.loop_events import fire_loop_events, run_event, store_events
from activities.model_call import call_model
from activities.pending_turns import pending_turns
from activities.providers.base import ModelRequest, ModelTurn
from activities.providers.registry import parse_target
from activities.turn_receipt import stored_blocks, turn_receipt
from activities.turn_request import build_turn_request
from zidane_core.context.repairs import MAX_SHORTENINGS, reach
from zidane_core.context.wire_view import WireView, view_of
from zidane_core.errors import ProviderError, ProviderFailure
from zidane_core.hooks import (
    InputTransformations,
    StreamEvent,
    ToolResultsAfter,
    TurnAfter,
    UsageReport,
)
from zidane_core.manifest import RunManifest
from zidane_core.receipts import TurnStreamed
from zidane_core.requests import StreamTurn
from zidane_core.session import HistoryRepair, Turn
from zidane_core.usage import TurnUsage
from zidane_core.values import Json


async def stream_turn(deps: Dependencies, request: StreamTurn, attempt: Attempt) -> TurnStreamed:
    """Make one model turn, or return the receipt of one that was already made.

    Implements: LOOP-01, LOOP-15, PROV-05, PROV-14, USE-01 to USE-04, CTL-11, DUR-02,
    K-TEMPORAL-06, K-TEMPORAL-08, K-TEMPORAL-16.
    """
    manifest = await deps.manifest(request.manifest)
    started = await deps.store.begin_turn(
        run_id=request.run_id,
        session_id=request.session_id,
        turn_id=request.turn_id,
        attempt=attempt.number,
        head=request.head,
        append=pending_turns(request, request.append),
        now=request.now,
        events=store_events(request),
    )
    if started.receipt is not None:
        return TurnStreamed.unpacked(started.receipt)
    path = await deps.store.path(request.session_id, started.head)
    repairs = _repairs(request, path)
    making = _Making(deps, request, attempt, manifest, started.head, started.attempt, repairs)
    view = view_of(path, repairs, deps.take_view(request.session_id))
    try:
        return await making.make(view, started.appended)
    finally:
        deps.keep_view(request.session_id, view)


class _Making:
    """One attempt at one turn."""

    def __init__(
        self,
        deps: Dependencies,
        request: StreamTurn,
        attempt: Attempt,
        manifest: RunManifest,
        head: str | None,
        live_attempt: int,
        repairs: tuple[HistoryRepair, ...],
    ) -> None:
        self._deps = deps
        self._request = request
        self._attempt = attempt
        self._manifest = manifest
        self._head = head
        self._live_attempt = live_attempt
        self._repairs = repairs
        self._hooks: HookBus = deps.hooks(manifest)
        self._ids: dict[str, Any] = {
            "run_id": request.run_id,
            "session_id": request.session_id,
            "attempt": attempt.number,
        }

    async def make(self, view: WireView, appended: Sequence[Turn]) -> TurnStreamed:
        hooks, request = self._hooks, self._request
        await fire_loop_events(hooks, request, self._attempt)
        results = next((turn for turn in appended if turn.tool_results), None)
        if results is not None and hooks.handles("tool-results:after"):
            payload = ToolResultsAfter(**self._ids, turn_id=request.turn_id, results=results)
            await hooks.fire("tool-results:after", payload)
        model_request = await build_turn_request(
            self._deps, request, self._manifest, hooks, view, ids=self._ids
        )
        if hooks.handles("stream:start"):
            await hooks.fire("stream:start", StreamEvent(**self._ids, turn_id=request.turn_id))
        live = LiveStream(
            request,
            attempt=self._live_attempt,
            emit=self._deps.store.events.emit if self._manifest.stream else None,
            hooks=hooks,
        )
        call = call_model(
            self._deps,
            self._target[0],
            model_request,
            live,
            catalog=self._manifest.behavior.model_catalog,
            agent=self._deps.agent(self._manifest.agent),
            hooks=hooks,
            ids=self._ids,
        )
        try:
            turn = await live.run(call, self._manifest.behavior)
        except ProviderError as error:
            return await self._failed(error.failure, live)
        except asyncio.CancelledError:
            if self._attempt.cancel_reason() == "shutdown":
                raise
            return await self._failed(None, live)
        return await self._commit(model_request, turn, live)

    @property
    def _target(self) -> tuple[str, str]:
        return parse_target(self._manifest.targets[self._request.target])

    async def _commit(
        self, model_request: ModelRequest, made: ModelTurn, live: LiveStream
    ) -> TurnStreamed:
        hooks, request = self._hooks, self._request
        first = live.first_event
        usage = made.usage.model_copy(
            update={
                "finish_reason": made.finish_reason,
                "provider": made.usage.provider or self._target[0],
                "model_id": made.usage.model_id or self._target[1],
                "stream_duration_ms": request.spent_ms + live.elapsed_ms(),
                "time_to_first_token_ms": None if first is None else live.elapsed_ms(first),
            }
        )
        turn = Turn(
            id=request.turn_id,
            parent_id=self._head,
            role="assistant",
            content=stored_blocks(made.blocks, request.turn_id, self._manifest),
            created_at=request.now,
            run_id=request.run_id,
            usage=usage,
            repairs=self._repairs,
        )
        if made.input_transformations and hooks.handles("provider:input-transformations"):
            changed = InputTransformations(
                **self._ids, turn_id=turn.id, transformations=made.input_transformations
            )
            await hooks.fire("provider:input-transformations", changed)
        if hooks.handles("stream:end"):
            end = StreamEvent(**self._ids, turn_id=turn.id, text=turn.text)
            await hooks.fire("stream:end", end)
        receipt = turn_receipt(
            turn,
            self._manifest,
            is_native=model_request.output_schema is not None,
            budget_usage=await self._budget_usage(usage),
            first_signal_at=live.first_signal_at if request.turn == 1 else None,
        )
        done: Json = {
            "turn": request.turn,
            "finish_reason": made.finish_reason,
            "calls": [f"{note.title}" for note in receipt.calls],
        }
        stored = await self._deps.store.commit_turn(
            turn,
            session_id=request.session_id,
            run_id=request.run_id,
            receipt=receipt.packed(),
            phase="tools" if receipt.calls else "streaming",
            events=(
                run_event(request, "turn:done", done, turn_id=turn.id, attempt=self._live_attempt),
            ),
        )
        if hooks.handles("turn:after"):
            after = TurnAfter(
                **self._ids, turn=request.turn, turn_id=turn.id, usage=usage, message=turn
            )
            await hooks.fire("turn:after", after)
        # Another attempt may have been first; then its turn and its calls are the stored ones.
        return TurnStreamed.unpacked(stored)

    async def _budget_usage(self, usage: TurnUsage) -> TurnUsage | None:
        if not self._hooks.handles("usage"):
            return None
        report = UsageReport(**self._ids, turn_id=self._request.turn_id, usage=usage)
        counted = (await self._hooks.fire("usage", report)).usage
        return None if counted == usage else counted

    async def _failed(self, failure: ProviderFailure | None, live: LiveStream) -> TurnStreamed:
        """Record a failed or cancelled attempt; what it had streamed becomes an aborted turn."""
        request = self._request
        receipt = TurnStreamed(
            failure=failure, is_cancelled=failure is None, elapsed_ms=live.elapsed_ms()
        )
        reason = failure.message if failure is not None else "cancelled"
        await asyncio.shield(
            self._deps.store.fail_turn(
                session_id=request.session_id,
                run_id=request.run_id,
                turn_id=request.turn_id,
                attempt=self._live_attempt,
                head=self._head,
                now=request.now,
                partial=live.partial(),
                receipt=receipt.packed(),
                events=(
                    run_event(
                        request,
                        "turn:failed",
                        {"reason": reason},
                        turn_id=request.turn_id,
                        attempt=self._live_attempt,
                    ),
                ),
            )
        )
        return receipt


def _repairs(request: StreamTurn, path: Sequence[Turn]) -> tuple[HistoryRepair, ...]:
    """Return what the request leaves out of the path; a level that cuts nothing gives way."""
    repairs: list[HistoryRepair] = []
    for order in request.repairs:
        levels = range(order.level, MAX_SHORTENINGS + 1)
        reached = (reach(order.kind, level, path) for level in levels)
        through = next((found for found in reached if found is not None), None)
        if through is not None:
            repairs.append(HistoryRepair(kind=order.kind, through=through))
    return tuple(repairs)
