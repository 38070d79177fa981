"""RunHandle: one run from outside. It asks the workflow while it can, and the store otherwise."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pydantic import JsonValue
from temporalio.client import (
    WorkflowFailureError,
    WorkflowHistory,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import TerminatedError
from temporalio.service import RPCError, RPCStatusCode

from zidane_client.asking import run_status, why_silent
from zidane_client.connection import WORKFLOW_ID_PREFIX, Connection
from zidane_client.execution import Execution, chain_histories, current_execution
from zidane_client.following import Shown, follow
from zidane_client.outcome import raise_failure, result_of_record
from zidane_client.replaying import ReplayReport, replay_run
from zidane_client.starting import Message, checked_message, checked_payload, start_run
from zidane_client.stored import last_text, transcript
from zidane_core.control import ControlName, PauseMode
from zidane_core.errors import AgentError, OperationTimeoutError, ServerUnreachableError, UsageError
from zidane_core.events import RunEvent
from zidane_core.manifest import RunManifest
from zidane_core.runs import RunResult, RunStatus
from zidane_core.session import RunRecord, Turn
from zidane_core.values import Json

_ANSWER_LIMIT_S = 30.0
_CLOSED_CHECK_S = 0.4
_RETRY_S = 2.0
_EVENTS_AT_ONCE = 500
_SIGNAL_TRIES = 5
RESUMABLE = ("paused", "suspended")


class RunHandle:
    """A run. Made by `ZidaneClient.start` and `ZidaneClient.handle`.

    Every method raises ServerUnreachableError or StoreError when what it needs is out of reach.

    Implements: DUR-03, CTL-01 to CTL-10.
    """

    def __init__(self, connection: Connection, *, session_id: str, run_id: str) -> None:
        self._connection = connection
        self.session_id = session_id
        self.run_id = run_id
        """The first execution's id of the run's chain; it stays through continue-as-new."""

    @property
    def workflow_id(self) -> str:
        """`zidane-<session_id>`."""
        return WORKFLOW_ID_PREFIX + self.session_id

    def __repr__(self) -> str:
        return f"RunHandle({self.session_id!r}, {self.run_id!r})"

    # -- the end ----------------------------------------------------------------------------

    async def result(self) -> RunResult:
        """Wait for the run's end and return its result.

        A run that was aborted, paused with mode `return` or suspended by a signal returns with
        that status; one that failed raises.

        Raises:
            AgentError: Of the class that ended the run; `details["result"]` holds the RunResult.
            AgentAbortedError: The workflow was cancelled through Temporal.
        """
        run_id = self.run_id
        while True:
            handle = self._connection.temporal.get_workflow_handle(self.workflow_id, run_id=run_id)
            try:
                with self._connection.calling():
                    packed: Any = await handle.result()
            except WorkflowFailureError as failure:
                moved = await self._reset_into(failure, run_id)
                if moved is None:
                    raise_failure(failure, self._ids)
                run_id = moved
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                return await self._stored_result()
            else:
                return RunResult.unpacked(packed)

    async def _reset_into(self, failure: WorkflowFailureError, run_id: str) -> str | None:
        """Return the execution into which `temporal workflow reset` moved the run, if it did."""
        if not isinstance(failure.cause, TerminatedError):
            return None
        current = await self._execution()
        if current is None or current.first_run_id != self.run_id or current.run_id == run_id:
            return None
        return current.run_id

    async def _stored_result(self) -> RunResult:
        store = await self._connection.store()
        record = await store.run(self.run_id)
        if record is None:
            raise UsageError(
                f"Run {self.run_id!r} is neither on the Temporal server nor in the store.",
                **self._ids,
            )
        return result_of_record(record, await last_text(store, record))

    # -- what is going on -------------------------------------------------------------------

    async def status(self) -> RunStatus:
        """Return where the run stands, within 5 seconds.

        When no worker answers, or the run is over, the answer is the last state that was stored,
        and `reason` says so.

        Raises:
            UsageError: Neither the server nor the store knows the run.

        Implements: K-TEMPORAL-09.
        """
        return await run_status(self._connection, self.session_id, self.run_id)

    async def events(self, after: int = 0) -> AsyncIterator[RunEvent]:
        """Yield the run's events from the store as they come, until `run:done`.

        Ends too when the workflow closed without one: terminated, or refused at its start.

        Args:
            after: Cursor: the `seq` of the last event already seen; 0 begins at the start.
        """
        store = await self._connection.store()
        seq = after
        closing = asyncio.create_task(self._closed())
        try:
            while True:
                # Read once more after the close: the last events may have come in between.
                is_closed = closing.done()
                while found := await store.events_after(
                    self.session_id, seq, limit=_EVENTS_AT_ONCE
                ):
                    for event in found:
                        seq = event.seq
                        if event.run_id == self.run_id:
                            yield event
                            if event.name == "run:done":
                                return
                if is_closed:
                    return
                await store.wait_events(self.session_id, seq, _CLOSED_CHECK_S)
        finally:
            closing.cancel()

    async def follow(self) -> AsyncIterator[Shown]:
        """Yield what a watcher shows: every word once, dead attempts voided (K-TEMPORAL-08)."""
        store = await self._connection.store()
        async for shown in follow(self.events(), store.turn):
            yield shown

    async def record(self) -> RunRecord | None:
        """Return the run as the store has it; None before a worker has set it up."""
        return await (await self._connection.store()).run(self.run_id)

    async def transcript(self) -> tuple[Turn, ...]:
        """Return the session's turns up to this run's end, in order.

        What a dead or failed attempt had streamed is in it, with `aborted`, before the turn that
        took its place. Needs no worker.
        """
        record = await self.record()
        return () if record is None else await transcript(await self._connection.store(), record)

    async def history(self) -> tuple[WorkflowHistory, ...]:
        """Return the Temporal histories of the run: one, and another per continue-as-new.

        Raises:
            UsageError: The server no longer has them.
        """
        with self._connection.calling():
            return await chain_histories(self._connection.temporal, self.workflow_id, self.run_id)

    async def replay(self) -> ReplayReport:
        """Replay the run's histories against the workflow code of this installation.

        Raises:
            UsageError: The server no longer has them.
        """
        with self._connection.calling():
            return await replay_run(
                self._connection.temporal,
                workflow_id=self.workflow_id,
                session_id=self.session_id,
                run_id=self.run_id,
            )

    # -- steering ---------------------------------------------------------------------------

    async def steer(self, message: Message, *, id: str | None = None) -> None:
        """Add a message while the run works; calls that have not started are skipped.

        Args:
            message: Text, or a message with parts and notes.
            id: A second message with the same id is ignored, so that a retry is safe.

        Raises:
            UsageError: The run is over, or the message is empty or over 256 KiB (K-STEER-01).
        """
        await self._message("steer", message, id)

    async def follow_up(self, message: Message, *, id: str | None = None) -> None:
        """Add a message for when the run would otherwise end; as `steer`."""
        await self._message("follow_up", message, id)

    async def pause(self, mode: PauseMode = "hold") -> None:
        """Stop at the next turn boundary: hold until `resume`, or return with status paused.

        Raises:
            UsageError: The run is over.
        """
        await self._signal("pause", {"mode": mode})

    async def abort(self, reason: str | None = None) -> None:
        """Cancel what runs and end as aborted; all turns are kept.

        Raises:
            UsageError: The run is over.
        """
        await self._signal("abort", {"reason": reason} if reason else None)

    async def suspend(self) -> None:
        """Cancel what runs and end as suspended; `resume` goes on.

        Raises:
            UsageError: The run is over.
        """
        await self._signal("suspend", None)

    async def resume(self) -> "RunHandle":
        """Leave pause or parked, or go on after an end as paused or suspended.

        Returns:
            This handle, or the one of a new run on the session, with the manifest of the old one.

        Raises:
            UsageError: The run ended in another way.
        """
        with self._connection.calling():
            execution = await self._execution()
        if execution is not None and execution.is_open:
            await self._signal("resume", None)
            return self
        record = await self.record()
        if record is None or record.status not in RESUMABLE or record.manifest is None:
            status = record.status if record is not None else "before it was set up"
            raise UsageError(
                f"Run {self.run_id!r} has ended ({status}); only a paused or suspended one is "
                f"resumed. Start another run on the session: {self._restart}.",
                **self._ids,
            )
        store = await self._connection.store()
        latest = await store.latest_run(self.session_id)
        if latest is not None and latest.run_id != self.run_id:
            raise UsageError(
                f"Run {self.run_id!r} was followed by run {latest.run_id!r} on its session. "
                "Resume that one.",
                **self._ids,
            )
        manifest = RunManifest.unpacked(await store.manifest(record.manifest))
        return await self._restarted(manifest, record)

    async def _restarted(self, manifest: RunManifest, record: RunRecord) -> "RunHandle":
        session_id, run_id = await start_run(
            self._connection,
            manifest.agent,
            {
                "session_id": self.session_id,
                "model": list(manifest.targets),
                "system": manifest.system,
                "thinking": manifest.thinking,
                "behavior": manifest.behavior.packed(),
                "model_options": dict(manifest.model_options),
                "tools": [spec.name for spec in manifest.tools],
                "hooks": {event: list(names) for event, names in manifest.hooks.items()},
                "workspace": manifest.workspace,
                "stream": manifest.stream,
                "run_label": record.label,
            },
        )
        return RunHandle(self._connection, session_id=session_id, run_id=run_id)

    async def answer(
        self, call_id: str, answer: JsonValue, *, timeout_s: float = _ANSWER_LIMIT_S
    ) -> None:
        """Answer an open question; returns once the run has taken it.

        Args:
            call_id: Of the question, as `status` lists it.
            answer: Any JSON; text reaches the model as it is.
            timeout_s: How long to wait for a worker to take it.

        Raises:
            UsageError: No open question has that id, it was already answered, the answer is over
                256 KiB, or the run is over.
            OperationTimeoutError: No worker took it in time.
        """
        payload = checked_payload({"call_id": call_id, "answer": answer}, "The answer")
        execution = await self._open_execution("answer")
        handle = self._connection.temporal.get_workflow_handle(
            self.workflow_id, run_id=execution.run_id
        )
        giving = asyncio.ensure_future(handle.execute_update("answer", payload))
        # Read in any case, or asyncio complains of an answer that was given up.
        giving.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            done, _ = await asyncio.wait({giving}, timeout=timeout_s)
            if not done:
                silent = await why_silent(self._connection.temporal, execution)
                raise OperationTimeoutError(
                    f"No worker took the answer within {timeout_s:g} s: {silent}. Start a worker "
                    "and answer again; if this answer is taken after all, that one is refused.",
                    **self._ids,
                )
            with self._connection.calling():
                giving.result()
        except WorkflowUpdateFailedError as error:
            raise UsageError(str(error.cause), call_id=call_id, **self._ids) from error
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            raise self._is_over("answer", execution) from error
        finally:
            giving.cancel()

    # -- private ----------------------------------------------------------------------------

    @property
    def _ids(self) -> dict[str, JsonValue]:
        return {"session_id": self.session_id, "run_id": self.run_id}

    @property
    def _restart(self) -> str:
        return f"zidane run AGENT PROMPT --session {self.session_id}"

    async def _message(self, name: ControlName, message: Message, id: str | None) -> None:
        packed = checked_message(name, message, id)
        await self._signal(name, packed)

    async def _signal(self, name: ControlName, payload: Json | None) -> None:
        checked_payload(payload, "The message")
        execution = await self._open_execution(name)
        for _ in range(_SIGNAL_TRIES):
            handle = self._connection.temporal.get_workflow_handle(
                self.workflow_id, run_id=execution.run_id
            )
            try:
                with self._connection.calling():
                    await handle.signal(name, args=[] if payload is None else [payload])
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                # It closed in between: for good, or because it continued as new.
                execution = await self._open_execution(name)
            else:
                return
        raise UsageError(f"The run moves too fast for {name!r}; try again.", **self._ids)

    async def _open_execution(self, verb: str) -> Execution:
        with self._connection.calling():
            execution = await self._execution()
        if execution is None or not execution.is_open:
            raise self._is_over(verb, execution)
        return execution

    def _is_over(self, verb: str, execution: Execution | None) -> UsageError:
        ended = "is not on the server" if execution is None else "is over"
        return UsageError(
            f"Run {self.run_id!r} {ended}, so it takes no {verb.replace('_', '-')}. Start "
            f"another run on the session: {self._restart}.",
            **self._ids,
        )

    async def _execution(self) -> Execution | None:
        return await current_execution(self._connection.temporal, self.workflow_id, self.run_id)

    async def _closed(self) -> None:
        """Return when the run's workflow has closed, however it did."""
        while True:
            try:
                await self.result()
            except (RPCError, ServerUnreachableError):
                # The store still answers, and it is what watchers read.
                await asyncio.sleep(_RETRY_S)
            except AgentError:
                return
            else:
                return
