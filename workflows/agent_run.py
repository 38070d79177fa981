"""AgentRun: one agent run as one workflow. Signals, the `answer` update, queries, its end."""

import asyncio
import json
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from workflows.clock import WorkflowClock
from workflows.temporal_runtime import ContinueAsNew, TemporalRuntime
from zidane_core.control import Answer, ControlName, Refused, parse_control
from zidane_core.errors import InvalidRequestError, UsageError
from zidane_core.loop import Loop
from zidane_core.runs import MAX_PAYLOAD_BYTES, RunResult, parse_request
from zidane_core.state import RunState
from zidane_core.values import Json

WORKFLOW_ID_PREFIX = "zidane-"
_NO_PAYLOAD = RawValue(Payload())


@workflow.defn(name="AgentRun")
class AgentRun:
    """A durable agent run (design: contract with Temporal).

    The argument is a RunRequest as plain JSON; a second one carries the state of a run that
    continued as new. Neither is trusted: a bad request ends the run with a typed failure.
    """

    @workflow.init
    def __init__(self, request: Any, carried: Any = None) -> None:
        self._clock = WorkflowClock()
        self._refusal: UsageError | None = None
        self._runtime = TemporalRuntime(Loop(self._first_state(request, carried), self._clock))

    @workflow.run
    async def run(self, request: Any, carried: Any = None) -> Any:
        """Drive the run; see `RunRequest` and `RunResult`."""
        del request, carried
        if self._refusal is not None:
            raise self._failure(self._refused_result(self._refusal))
        try:
            result = await self._runtime.run()
        except ContinueAsNew as again:
            state = again.state
            workflow.continue_as_new(
                args=[{"agent": state.agent, "session_id": state.session_id}, state.packed()]
            )
        if self._runtime.is_cancelled:
            raise asyncio.CancelledError
        if result.error is not None:
            raise self._failure(result)
        return result.full()

    # -- signals ----------------------------------------------------------------------------

    @workflow.signal(name="steer", description="Add a message while the run works")
    def steer(self, payload: RawValue = _NO_PAYLOAD) -> None:
        """Text or {"prompt", "id"?, "system_notes"?}; calls not yet started are skipped."""
        self._take("steer", payload)

    @workflow.signal(name="follow_up", description="Add a message for when the run would end")
    def follow_up(self, payload: RawValue = _NO_PAYLOAD) -> None:
        """As `steer`; used when the run would otherwise end."""
        self._take("follow_up", payload)

    @workflow.signal(name="pause", description="Stop at the next turn boundary")
    def pause(self, payload: RawValue = _NO_PAYLOAD) -> None:
        """Optional {"mode": "hold" | "return"}."""
        self._take("pause", payload)

    @workflow.signal(name="resume", description="Leave pause or parked")
    def resume(self, payload: RawValue = _NO_PAYLOAD) -> None:
        """No argument."""
        self._take("resume", payload)

    @workflow.signal(name="abort", description="Cancel what runs, and end as aborted")
    def abort(self, payload: RawValue = _NO_PAYLOAD) -> None:
        """Optional reason, as text or {"reason"}."""
        self._take("abort", payload)

    @workflow.signal(name="suspend", description="Cancel what runs, and end resumable")
    def suspend(self, payload: RawValue = _NO_PAYLOAD) -> None:
        """No argument."""
        self._take("suspend", payload)

    # -- the update -------------------------------------------------------------------------

    @workflow.update(name="answer", description="Answer an open question")
    def answer(self, payload: Any) -> Any:
        """Take {"call_id", "answer"}; the validator has refused everything else."""
        self._runtime.inbox.append(Answer(call_id=payload["call_id"], answer=payload.get("answer")))
        return {"accepted": True}

    @answer.validator
    def check_answer(self, payload: Any) -> None:
        """Refuse an answer to no open question, one already given, or one over 256 KiB."""
        if not isinstance(payload, dict) or "call_id" not in payload:
            raise _refused('an answer is {"call_id": text, "answer": any JSON}')
        size = len(json.dumps(payload).encode())
        if size > MAX_PAYLOAD_BYTES:
            raise _refused(f"the answer has {size} bytes, at most {MAX_PAYLOAD_BYTES} are taken")
        given = {m.call_id for m in self._runtime.inbox if isinstance(m, Answer)}
        known = [q.call_id for q in self._runtime.loop.state.questions if q.call_id not in given]
        if payload["call_id"] not in known:
            raise _refused(
                f"no open question has call id {payload['call_id']!r}. Open: {known or 'none'}"
            )

    # -- queries ----------------------------------------------------------------------------

    @workflow.query(name="status", description="Phase, turn, queued messages, open questions")
    def status(self) -> Any:
        """Return a RunStatus."""
        return self._runtime.loop.status().model_dump(mode="json")

    @workflow.query(name="stats", description="Usage so far")
    def stats(self) -> Any:
        """Return AgentStats so far."""
        return self._runtime.loop.status().stats.model_dump(mode="json")

    @workflow.query(name="tool_state", description="Committed tool state")
    def tool_state(self) -> Any:
        """Return the committed tool state as an object."""
        return dict(self._runtime.loop.state.tool_state)

    # -- private ----------------------------------------------------------------------------

    def _take(self, name: ControlName, raw: RawValue) -> None:
        size = len(raw.payload.data)
        try:
            payload = (
                workflow.payload_converter().from_payload(raw.payload)
                if raw.payload.metadata and size <= MAX_PAYLOAD_BYTES
                else None
            )
            control = parse_control(name, payload, size=size)
        except Exception as error:
            # Whatever a sender made of its payload is its own fault, never the run's.
            control = Refused(name=name, reason=f"the payload cannot be read: {error}"[:500])
        if isinstance(control, Refused):
            workflow.logger.warning("Refused signal %s: %s", name, control.reason)
        self._runtime.inbox.append(control)

    def _first_state(self, request: Any, carried: Any) -> RunState:
        if carried is not None:
            return RunState.model_validate(carried)
        workflow_id = workflow.info().workflow_id
        session_id = workflow_id.removeprefix(WORKFLOW_ID_PREFIX)
        agent, packed = "", None
        try:
            wanted = parse_request(request)
            agent, packed = wanted.agent, wanted.packed()
            if wanted.session_id not in (None, session_id):
                raise InvalidRequestError(
                    f"session_id {wanted.session_id!r} needs workflow id "
                    f"{WORKFLOW_ID_PREFIX + str(wanted.session_id)!r}, got {workflow_id!r}: the "
                    "workflow's id is what keeps two runs off one session."
                )
        except UsageError as error:
            self._refusal = error
        return RunState(
            # The chain's first id: the client that started the run knows it, and it survives
            # continue-as-new and reset.
            run_id=workflow.info().first_execution_run_id,
            session_id=session_id,
            agent=agent,
            started_at=self._clock.now(),
            request=packed,
        )

    def _refused_result(self, refusal: UsageError) -> RunResult:
        state = self._runtime.loop.state
        return RunResult(
            status="error",
            session_id=state.session_id,
            run_id=state.run_id,
            error=refusal.to_dict(),
        )

    @staticmethod
    def _failure(result: RunResult) -> ApplicationError:
        error: Json = result.error or {}
        return ApplicationError(
            str(error.get("message")),
            result.full(),
            type=str(error.get("type")),
            non_retryable=True,
        )


def _refused(reason: str) -> ApplicationError:
    return ApplicationError(f"Answer refused: {reason}.", type="AnswerRefused", non_retryable=True)
