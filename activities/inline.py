"""InlineRuntime: the same loop and the same activities without Temporal.

For unit tests, notebooks and scripts that may be lost: nothing here is durable beyond what the
store holds, and nothing takes over when the process dies.
"""

import asyncio
import contextlib
import random
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from activities.dependencies import Attempt, Dependencies, agents_by_name
from activities.providers.base import Provider
from activities.providers.registry import Providers
from activities.registry import BODIES
from activities.store import Store, open_store
from zidane_core.agent import Agent
from zidane_core.clock import AgentClock
from zidane_core.control import Answer, ControlName, parse_control
from zidane_core.errors import AgentError, InvalidRequestError
from zidane_core.loop import Incoming, Loop, Step
from zidane_core.receipts import Receipt, RequestFailed, Settled, Waited
from zidane_core.requests import Request, Wait
from zidane_core.runs import RunRequest, RunResult, RunStatus
from zidane_core.state import RunState


class SystemClock:
    """AgentClock over the wall clock and the system's randomness (CLK-02)."""

    def now(self) -> int:
        """Return the time in epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def random_uuid(self) -> str:
        """Return a new id."""
        return str(uuid.uuid4())

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return random.random()


class InlineRuntime:
    """One run in this process.

    Args:
        deps: Agents, store and providers.
        request: What to run; a session id is minted when it has none.
        clock: Times and ids; the system's when None.
    """

    def __init__(
        self, deps: Dependencies, request: RunRequest, *, clock: AgentClock | None = None
    ) -> None:
        clock = clock or SystemClock()
        self._deps = deps
        self._inbox: asyncio.Queue[Incoming] = asyncio.Queue()
        self._running: dict[str, asyncio.Task[Receipt]] = {}
        self._loop = Loop(
            RunState(
                run_id=clock.random_uuid(),
                session_id=request.session_id or clock.random_uuid(),
                agent=request.agent,
                started_at=clock.now(),
                request=request.packed(),
            ),
            clock,
        )

    @property
    def session_id(self) -> str:
        """The session that the run writes."""
        return self._loop.state.session_id

    @property
    def run_id(self) -> str:
        """The run's own id."""
        return self._loop.state.run_id

    def send(self, name: ControlName, payload: JsonValue = None) -> None:
        """Send what a signal of that name would carry; a bad payload leaves an event."""
        self._inbox.put_nowait(parse_control(name, payload, size=len(repr(payload))))

    def answer(self, call_id: str, answer: JsonValue) -> None:
        """Answer an open question.

        Raises:
            InvalidRequestError: No open question has that call id.
        """
        open_ids = [question.call_id for question in self._loop.state.questions]
        if call_id not in open_ids:
            raise InvalidRequestError(f"No open question has call id {call_id!r}: {open_ids}.")
        self._inbox.put_nowait(Answer(call_id=call_id, answer=answer))

    def status(self) -> RunStatus:
        """Return where the run stands."""
        return self._loop.status()

    async def run(self) -> RunResult:
        """Drive the run to its end. Cancelling it aborts the run, then raises.

        Raises:
            AgentError: What ended the run, when it ended by an error; `details["result"]` holds
                the RunResult.
        """
        try:
            step = self._loop.begin()
            # What came before the end is taken too, so that no message is lost unlisted.
            while step.result is None or not self._inbox.empty():
                self._apply(step)
                step = self._loop.receive(await self._inbox.get())
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)
        result = step.result
        if result.error is not None:
            error = AgentError.from_dict(result.error)
            error.details["result"] = result.full()
            raise error
        return result

    def _apply(self, step: Step) -> None:
        for request in step.requests:
            task = asyncio.create_task(self._perform(request))
            self._running[request.key] = task
            task.add_done_callback(lambda done, key=request.key: self._settle(key, done))
        for key in step.cancels:
            if key in self._running:
                self._running[key].cancel()

    async def _perform(self, request: Request) -> Receipt:
        if isinstance(request, Wait):
            await asyncio.sleep(request.delay_ms / 1000)
            return Waited()
        return await BODIES[type(request)](self._deps, request, Attempt())

    def _settle(self, key: str, task: asyncio.Task[Receipt]) -> None:
        self._running.pop(key, None)
        if task.cancelled():
            receipt: Receipt = RequestFailed(
                type="Cancelled", message="cancelled", is_cancelled=True
            )
        elif (error := task.exception()) is None:
            receipt = task.result()
        elif isinstance(error, AgentError):
            details = error.details
            receipt = RequestFailed(type=error.code, message=error.message, details=details)
        else:
            receipt = RequestFailed(type=type(error).__name__, message=str(error))
        self._inbox.put_nowait(Settled(key=key, receipt=receipt))


async def run_inline(
    agent: Agent,
    prompt: str,
    *,
    model: str | None = None,
    session_id: str | None = None,
    workspace: str | None = None,
    store: Store | None = None,
    providers: Mapping[str, Provider] | None = None,
) -> RunResult:
    """Run an agent in this process, without Temporal and so without durability.

    Args:
        agent: What to run.
        prompt: The user's text.
        model: `provider:model`; the agent's when None.
        session_id: A session of `store` to go on with; a new one when None.
        workspace: Folder for tools; the working directory when None.
        store: Where the session goes; a temporary one, deleted afterwards, when None.
        providers: More model providers by name.

    Raises:
        AgentError: The run ended by an error.
    """
    async with contextlib.AsyncExitStack() as stack:
        if store is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="zidane-"))
            store = await open_store(f"sqlite:///{Path(folder) / 'zidane.db'}")
            stack.push_async_callback(store.close)
        registry = Providers(providers or {})
        stack.push_async_callback(registry.close)
        deps = Dependencies(store=store, providers=registry, agents=agents_by_name([agent]))
        request = RunRequest(
            agent=agent.name,
            prompt=prompt,
            model=model,
            session_id=session_id,
            workspace=workspace,
        )
        return await InlineRuntime(deps, request).run()
