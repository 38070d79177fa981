"""A worker process that the crash tests hold and kill: real product, counting model and tools.

Run as `python -m tests.support.crash_worker FOLDER ADDRESS QUEUE NAME cached|uncached`.
"""

import asyncio
import dataclasses
import hashlib
import json
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)
from temporalio.plugin import SimplePlugin
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    Interceptor,
    WorkerConfig,
)

from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    ProviderCapabilities,
    ProviderMeta,
    StreamSink,
)
from activities.store import CallStart, Store, TurnStart, open_store
from activities.store.opening import open_driver
from activities.store.work import Driver
from activities.toolbox.human import ask_user
from tests.support.crash_points import Points
from worker import run_worker
from zidane_core import Agent, Tool, ToolContext, tool
from zidane_core.content import (
    ContentBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    tool_result_to_text,
)
from zidane_core.errors import ProviderError, ProviderFailure
from zidane_core.session import RunRecord
from zidane_core.usage import TurnUsage


class HaltingStore(Store):
    """The store, with a point before and after each of its durable steps."""

    def __init__(self, driver: Driver, points: Points) -> None:
        super().__init__(driver)
        self._points = points

    async def start_run(self, record: RunRecord, **what: Any) -> None:
        async with self._points.around(record.session_id, "start_run"):
            await super().start_run(record, **what)

    async def finish_run(self, record: RunRecord, **what: Any) -> str | None:
        async with self._points.around(record.session_id, "finish_run"):
            return await super().finish_run(record, **what)

    async def begin_turn(self, **what: Any) -> TurnStart:
        async with self._points.around(what["session_id"], "begin_turn"):
            return await super().begin_turn(**what)

    async def commit_turn(self, turn: Any, **what: Any) -> Any:
        async with self._points.around(what["session_id"], "commit_turn"):
            return await super().commit_turn(turn, **what)

    async def begin_call(self, **what: Any) -> CallStart:
        async with self._points.around(what["session_id"], f"begin_call {what['name']}"):
            return await super().begin_call(**what)

    async def finish_call(self, **what: Any) -> Any:
        async with self._points.around(what["session_id"], f"finish_call {what['name']}"):
            return await super().finish_call(**what)


class PlannedProvider:
    """Plays the run's plan and writes down every request; the model's name is the session id.

    A step of a plan: `text` (pieces, `{worker}` is this process's name), `calls` (tool, item),
    `errors` (how many attempts fail first) and `error` (fields of their ProviderFailure).
    """

    name = "planned"
    capabilities = ProviderCapabilities()
    meta = ProviderMeta()

    def __init__(self, folder: Path, points: Points) -> None:
        self._folder = folder
        self._points = points

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        session, turn = request.model, request.assistant_turns + 1
        step = json.loads((self._folder / f"{session}.plan.json").read_text())[turn - 1]
        sent = [text for message in request.messages for text in _texts(message.content)]
        self._points.journal(
            "requests",
            {"session": session, "turn": turn, "attempt": request.attempt, "sent": sent},
        )
        if request.attempt <= step.get("errors", 0):
            raise ProviderError(ProviderFailure.model_validate(step["error"]))
        pieces = [piece.format(worker=self._points.worker) for piece in step.get("text", [])]
        for piece in pieces:
            sink.text(piece)
            await self._points.at(f"{session} turn {turn} piece")
        calls = [
            ToolCallBlock(id=f"call-{turn}-{number}", name=name, input={key: item})
            for number, (name, item) in enumerate(step.get("calls", []))
            for key in ["question" if name == "ask_user" else "item"]
        ]
        return ModelTurn(
            blocks=(*([TextBlock(text="".join(pieces))] if pieces else []), *calls),
            finish_reason="tool-calls" if calls else "stop",
            usage=TurnUsage(input=turn, output=1),
        )

    async def close(self) -> None:
        return


def _texts(blocks: Iterable[ContentBlock]) -> list[str]:
    texts: list[str] = []
    for block in blocks:
        match block:
            case TextBlock():
                texts.append(block.text)
            case ToolResultBlock():
                texts.append(tool_result_to_text(block.output))
            case _:
                pass
    return texts


def counting_tool(points: Points, tool_name: str, **flags: Any) -> Tool:
    """Make a tool that writes down each start and end of its body."""

    @tool(name=tool_name, **flags)
    async def body(ctx: ToolContext, item: str) -> str:
        """Do something that should be done once."""
        entry = {"session": ctx.session_id, "tool": tool_name, "item": item}
        points.journal("bodies", {**entry, "step": "start"})
        ctx.state.set(f"{tool_name} {item}", points.worker)
        await points.at(f"{ctx.session_id} in {tool_name} {item}")
        points.journal("bodies", {**entry, "step": "end"})
        return f"{tool_name} {item}: done by {points.worker}"

    return body


class ReceiptPoints(PayloadCodec, WithSerializationContext):
    """Changes nothing; a point where workflow code gets an activity's receipt for the first time.

    By then the server has recorded that the activity completed.
    """

    def __init__(self, points: Points, known: set[bytes], session_id: str = "") -> None:
        self._points = points
        self._known = known
        self._session_id = session_id

    def with_context(self, context: SerializationContext) -> "ReceiptPoints":
        match context:
            case WorkflowSerializationContext() | ActivitySerializationContext():
                session_id = (context.workflow_id or "").removeprefix("zidane-")
                return ReceiptPoints(self._points, self._known, session_id)
            case _:
                return self

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        for payload in payloads:
            kind = _receipt_kind(payload)
            digest = hashlib.sha256(self._session_id.encode() + payload.data).digest()
            if kind is not None and digest not in self._known:
                self._known.add(digest)
                await self._points.at(f"{self._session_id} seen {kind}")
        return list(payloads)


def _receipt_kind(payload: Payload) -> str | None:
    """Return the kind of a receipt; None for any other payload."""
    kinds = {"run_started", "turn_streamed", "tool_called", "run_finished"}
    value: Any = json.loads(payload.data) if payload.data.startswith(b"{") else {}
    kind: str | None = value.get("kind")
    return kind if kind in kinds else None


class LosesHeartbeats(Interceptor):
    """Drops the heartbeats of muted attempts, as a broken network would."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Inbound(next, self._points)


class _Inbound(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, points: Points) -> None:
        super().__init__(next)
        self._points = points

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        super().init(_Outbound(outbound, self._points))


class _Outbound(ActivityOutboundInterceptor):
    def __init__(self, next: ActivityOutboundInterceptor, points: Points) -> None:
        super().__init__(next)
        self._points = points

    def heartbeat(self, *details: Any) -> None:
        if self.info().task_token not in self._points.muted:
            super().heartbeat(*details)


class CacheOff(SimplePlugin):
    """Makes every workflow task replay from the first event."""

    def __init__(self) -> None:
        super().__init__("cache-off")

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        config = super().configure_worker(config)
        config["max_cached_workflows"] = 0
        return config


async def main(folder: Path, address: str, queue: str, name: str, cache: str) -> None:
    """Run the worker until SIGTERM."""
    points = Points(folder, name)
    agent = Agent(
        "crash",
        tools=[
            counting_tool(points, "charge"),
            counting_tool(points, "look_up", idempotent=True, concurrency_safe=True),
            counting_tool(points, "peek", read_only=True, quick=True),
            ask_user,
        ],
    )
    url = f"sqlite:///{folder / 'store.db'}"
    await (await open_store(url)).close()
    store = HaltingStore(await open_driver(url), points)
    converter = dataclasses.replace(
        DataConverter.default, payload_codec=ReceiptPoints(points, set())
    )
    client = await Client.connect(
        address,
        data_converter=converter,
        plugins=[
            SimplePlugin("beats", interceptors=[LosesHeartbeats(points)]),
            *([CacheOff()] if cache == "uncached" else []),
        ],
    )
    providers = {"planned": PlannedProvider(folder, points)}
    await run_worker([agent], client=client, queue=queue, store=store, providers=providers)
    await store.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
