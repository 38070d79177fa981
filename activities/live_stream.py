"""One model stream as it happens: live pieces for watchers, hooks, watchdogs, what had arrived."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from activities.hook_bus import HookBus
from activities.providers.base import ModelTurn
from zidane_core.behavior import AgentBehavior
from zidane_core.content import ContentBlock, TextBlock, ThinkingBlock
from zidane_core.errors import ProviderError, ProviderFailure
from zidane_core.events import EventName, RunEvent
from zidane_core.hooks import StreamEvent
from zidane_core.requests import StreamTurn
from zidane_core.rules.budgets import bounded_timeout_ms

Emit = Callable[[RunEvent], None]


class LiveStream:
    """The sink of one attempt.

    Args:
        request: The turn that is made.
        attempt: Number of the attempt among all of this turn; a higher one voids lower ones.
        emit: Takes live events; None when nobody may watch.
        hooks: The run's hooks.
    """

    def __init__(
        self, request: StreamTurn, *, attempt: int, emit: Emit | None, hooks: HookBus
    ) -> None:
        self._request = request
        self._attempt = attempt
        self._emit = emit
        self._hooks = hooks
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._server_tool_ran = False
        self._started = time.monotonic()
        self._last_event = self._started
        self._hooked: asyncio.Queue[tuple[str, StreamEvent]] | None = None
        if hooks.handles("stream:text") or hooks.handles("stream:thinking"):
            self._hooked = asyncio.Queue()
        self.first_event: float | None = None
        """Monotonic time of the first text, thinking or tool call."""
        self.first_signal_at: int | None = None
        """The same by the wall clock, in epoch milliseconds."""

    def text(self, delta: str) -> None:
        """Take a piece of text."""
        self._text.append(delta)
        self._landed("text", delta)

    def thinking(self, delta: str) -> None:
        """Take a piece of reasoning."""
        self._thinking.append(delta)
        self._landed("thinking", delta)

    def tool_call(self, name: str) -> None:
        """Take note that a tool call began."""
        self._landed(None, name)

    def tool_arguments(self, delta: str) -> None:
        """Take note of a piece of arguments."""
        self._landed(None, delta)

    def server_tool(self, name: str) -> None:
        """Take note that a tool of the provider's own ran."""
        self._server_tool_ran = True
        self._landed(None, name)

    def partial(self) -> tuple[ContentBlock, ...]:
        """Return what had arrived, for an aborted turn; empty when nothing had."""
        thinking, text = "".join(self._thinking), "".join(self._text)
        blocks: list[ContentBlock] = []
        if thinking:
            blocks.append(ThinkingBlock(text=thinking))
        if text:
            blocks.append(TextBlock(text=text))
        return tuple(blocks)

    def elapsed_ms(self, until: float | None = None) -> int:
        """Return the time since dispatch in milliseconds."""
        return int(((time.monotonic() if until is None else until) - self._started) * 1000)

    async def run(self, call: Awaitable[ModelTurn], behavior: AgentBehavior) -> ModelTurn:
        """Await the model call under the three watchdogs.

        Raises:
            ProviderError: The call failed, or a watchdog ended it (kind `timeout`).

        Implements: PROV-07, PROV-08, PROV-09, BUD-05.
        """
        task = asyncio.ensure_future(call)
        hooking = asyncio.create_task(self._dispatch_hooks()) if self._hooked is not None else None
        try:
            await self._watch(task, behavior)
            turn = await task
            if self._hooked is not None:
                await self._hooked.join()
            return turn
        finally:
            # A cancelled stream must have closed its connection before the attempt reports.
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
            if hooking is not None:
                hooking.cancel()

    async def _watch(self, task: asyncio.Future[ModelTurn], behavior: AgentBehavior) -> None:
        wall = behavior.max_wall_ms
        limits = {
            "start": bounded_timeout_ms(behavior.provider_stream_start_timeout_ms, wall) / 1000,
            "idle": bounded_timeout_ms(behavior.provider_stream_idle_timeout_ms, wall) / 1000,
            "total": bounded_timeout_ms(behavior.provider_stream_timeout_ms, wall) / 1000,
        }
        while not task.done():
            deadlines = self._deadlines(limits)
            timeout = min(deadlines.values(), default=None)
            if timeout is not None and timeout <= 0:
                which = min(deadlines, key=lambda name: deadlines[name])
                raise ProviderError(self._timed_out(which, limits[which]))
            await asyncio.wait({task}, timeout=timeout)

    def _deadlines(self, limits: dict[str, float]) -> dict[str, float]:
        """Return the seconds left on each watchdog that is on."""
        now = time.monotonic()
        left: dict[str, float] = {}
        if self.first_event is None and limits["start"]:
            left["start"] = self._started + limits["start"] - now
        if limits["idle"]:
            # Before the first event the gap does not count, but it may begin at any moment.
            since = now if self.first_event is None else self._last_event
            left["idle"] = since + limits["idle"] - now
        if limits["total"]:
            left["total"] = self._started + limits["total"] - now
        return left

    def _timed_out(self, which: str, limit_s: float) -> ProviderFailure:
        said = {
            "start": "sent nothing for",
            "idle": "went silent for",
            "total": "did not finish within",
        }[which]
        return ProviderFailure(
            kind="timeout",
            message=f"The model {said} {limit_s:g} s.",
            retryable=True,
            streamed=bool(self._text),
            server_tool_ran=self._server_tool_ran,
            discarded_thinking=sum(map(len, self._thinking)),
        )

    def _landed(self, kind: Literal["text", "thinking"] | None, delta: str) -> None:
        self._last_event = time.monotonic()
        if self.first_event is None:
            self.first_event = self._last_event
            self.first_signal_at = int(time.time() * 1000)
        if kind is None:
            return
        if self._emit is not None:
            self._emit(self._event(kind, delta))
        name = f"stream:{kind}"
        if self._hooked is not None and self._hooks.handles(name):
            payload = StreamEvent(
                run_id=self._request.run_id,
                session_id=self._request.session_id,
                attempt=self._attempt,
                turn_id=self._request.turn_id,
                delta=delta,
                text="".join(self._text),
                thinking="".join(self._thinking),
            )
            self._hooked.put_nowait((name, payload))

    def _event(self, name: EventName, delta: str) -> RunEvent:
        return RunEvent(
            run_id=self._request.run_id,
            session_id=self._request.session_id,
            name=name,
            at=int(time.time() * 1000),
            turn_id=self._request.turn_id,
            attempt=self._attempt,
            fields={"delta": delta},
        )

    async def _dispatch_hooks(self) -> None:
        assert self._hooked is not None
        while True:
            name, payload = await self._hooked.get()
            await self._hooks.fire(name, payload)
            self._hooked.task_done()
