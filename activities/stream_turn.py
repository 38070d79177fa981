"""One model turn: append what the loop asked for, call the model, store the assistant turn."""

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

from activities.annotate import annotate
from activities.dependencies import Attempt, Dependencies
from activities.hook_bus import HookBus
from activities.live_stream import LiveStream
from activities.loop_events import fire_loop_events, run_event, store_events
from activities.model_call import call_model
from activities.pending_turns import pending_turns
from activities.providers.base import ModelRequest, ModelTurn
from activities.providers.registry import parse_target
from zidane_core.content import (
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    clean_json,
    clean_text,
    clip_utf8,
)
from zidane_core.context.pairing import check_repairs
from zidane_core.context.wire_view import WireView
from zidane_core.errors import ProviderError, ProviderFailure
from zidane_core.hooks import (
    ContextTransform,
    PairingRepair,
    StreamEvent,
    SystemPrompt,
    ToolResultsAfter,
    TurnAfter,
    TurnBefore,
    UsageReport,
)
from zidane_core.manifest import RunManifest
from zidane_core.receipts import MAX_PREVIEW_CHARS, TurnStreamed
from zidane_core.requests import StreamTurn
from zidane_core.session import Message, Turn
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
    making = _Making(deps, request, attempt, manifest, started.head, started.attempt)
    path = await deps.store.path(request.session_id, started.head)
    view = deps.take_view(request.session_id)
    if not view.covers(path):
        view = WireView()
    view.extend(path)
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
    ) -> None:
        self._deps = deps
        self._request = request
        self._attempt = attempt
        self._manifest = manifest
        self._head = head
        self._live_attempt = live_attempt
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
        model_request = await self._model_request(view)
        if hooks.handles("stream:start"):
            await hooks.fire("stream:start", StreamEvent(**self._ids, turn_id=request.turn_id))
        live = LiveStream(
            request,
            attempt=self._live_attempt,
            emit=self._deps.store.events.emit if self._manifest.stream else None,
            hooks=hooks,
        )
        call = call_model(self._deps, self._target[0], model_request, live)
        try:
            turn = await live.run(call, self._manifest.behavior)
        except ProviderError as error:
            return await self._failed(error.failure, live)
        except asyncio.CancelledError:
            if self._attempt.cancel_reason() == "shutdown":
                raise
            return await self._failed(None, live)
        return await self._commit(turn, live)

    @property
    def _target(self) -> tuple[str, str]:
        return parse_target(self._manifest.targets[self._request.target])

    async def _model_request(self, view: WireView) -> ModelRequest:
        hooks, manifest, request = self._hooks, self._manifest, self._request
        repairs = list(view.repairs())
        if hooks.handles("pairing:repair"):
            for repair in repairs:
                payload = PairingRepair(
                    **self._ids,
                    turn_id=request.turn_id,
                    repair=repair.kind,
                    call_id=repair.call_id,
                )
                await hooks.fire("pairing:repair", payload)
        check_repairs(
            repairs,
            strict=manifest.behavior.strict_tool_pairing,
            max_repairs=manifest.behavior.max_pairing_repairs_per_turn,
        )
        messages: tuple[Message, ...] = view.messages()
        if hooks.handles("context:transform"):
            context = ContextTransform(
                **self._ids, turn_id=request.turn_id, messages=list(messages)
            )
            messages = tuple((await hooks.fire("context:transform", context)).messages)
        system = manifest.system
        if hooks.handles("system:transform"):
            prompt = SystemPrompt(**self._ids, system=system, turn_id=request.turn_id)
            system = (await hooks.fire("system:transform", prompt)).system
        model_request = ModelRequest(
            model=self._target[1],
            system=system,
            messages=messages,
            tools=manifest.tools,
            max_tokens=manifest.behavior.max_tokens,
            thinking=manifest.thinking,
            thinking_budget=manifest.behavior.thinking_budget,
            model_options=manifest.model_options,
            assistant_turns=view.assistant_turns,
            attempt=request.attempt,
        )
        if not hooks.handles("turn:before"):
            return model_request
        before = TurnBefore(
            **self._ids,
            turn=request.turn,
            turn_id=request.turn_id,
            model=model_request.model,
            max_tokens=model_request.max_tokens,
            model_options=dict(model_request.model_options),
        )
        await hooks.fire("turn:before", before)
        return dataclasses.replace(
            model_request, max_tokens=before.max_tokens, model_options=before.model_options
        )

    async def _commit(self, made: ModelTurn, live: LiveStream) -> TurnStreamed:
        hooks, request = self._hooks, self._request
        first = live.first_event
        usage = made.usage.model_copy(
            update={
                "finish_reason": made.finish_reason,
                "provider": made.usage.provider or self._target[0],
                "model_id": made.usage.model_id or self._target[1],
                "stream_duration_ms": live.elapsed_ms(),
                "time_to_first_token_ms": None if first is None else live.elapsed_ms(first),
            }
        )
        turn = Turn(
            id=request.turn_id,
            parent_id=self._head,
            role="assistant",
            content=_stored_blocks(made.blocks, request.turn_id, self._manifest),
            created_at=request.now,
            run_id=request.run_id,
            usage=usage,
        )
        if hooks.handles("stream:end"):
            end = StreamEvent(**self._ids, turn_id=turn.id, text=turn.text)
            await hooks.fire("stream:end", end)
        receipt = TurnStreamed(
            usage=_for_history(usage),
            budget_usage=await self._budget_usage(usage),
            calls=tuple(annotate(call, self._manifest) for call in turn.tool_calls),
            preview=clip_utf8(turn.text[:MAX_PREVIEW_CHARS], 512),
            has_text=bool(turn.text),
            has_thinking=any(isinstance(block, ThinkingBlock) for block in turn.content),
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
        receipt = TurnStreamed(failure=failure, is_cancelled=failure is None)
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


def _for_history(usage: TurnUsage) -> TurnUsage:
    """Leave out what the store has and the loop does not decide from."""
    return TurnUsage(
        input=usage.input,
        output=usage.output,
        cache_creation=usage.cache_creation,
        cache_read=usage.cache_read,
        cost=usage.cost,
        finish_reason=usage.finish_reason,
    )


def _stored_blocks(
    blocks: Sequence[ContentBlock], turn_id: str, manifest: RunManifest
) -> tuple[ContentBlock, ...]:
    """Give every call its canonical name and an id that is its own in the turn.

    An empty or repeated id gets one derived from the turn, the same on every retry.

    Implements: SESS-08, TOOL-05, K-OPENAI-06.
    """
    seen: set[str] = set()
    kept: list[ContentBlock] = []
    for index, block in enumerate(blocks):
        if isinstance(block, ToolCallBlock):
            spec = manifest.tool(block.name)
            call_id = block.id
            if not call_id or call_id in seen:
                call_id = f"{call_id or 'call'}-{turn_id[:8]}-{index}"
            seen.add(call_id)
            name = spec.name if spec is not None else block.name
            if (call_id, name) != (block.id, block.name):
                block = block.model_copy(update={"id": call_id, "name": name})
        kept.append(_clean(block))
    return tuple(kept)


def _clean(block: ContentBlock) -> ContentBlock:
    """Mend broken surrogate pairs that a model wrote, or the turn could not be stored."""
    match block:
        case TextBlock() | ThinkingBlock():
            text = clean_text(block.text)
            return block if text is block.text else block.model_copy(update={"text": text})
        case ToolCallBlock():
            return block.model_copy(update={"input": clean_json(block.input)})
        case _:
            return block
