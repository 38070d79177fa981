"""AgentRun: one agent run as one workflow. Signals, the `answer` update, queries, its end."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, cast, get_args

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from workflows.clock import WorkflowClock
from workflows.temporal_runtime import ContinueAsNew, TemporalRuntime
from zidane_core.control import Answer, Control, ControlName, Refused, parse_control
from zidane_core.errors import InvalidRequestError, UsageError
from zidane_core.loop import Loop
from zidane_core.runs import MAX_PAYLOAD_BYTES, RunResult, parse_request
from zidane_core.state import RunState
from zidane_core.values import Json

WORKFLOW_ID_PREFIX = "zidane-"


# Not sandboxed: no author's code runs here, and what the sandbox would watch (zidane_core) is
# banned from the world by its own lint rules. The sandbox cost a quarter of a turn's CPU.
@workflow.defn(name="AgentRun", sandboxed=False)
class AgentRun:
    """A durable agent run (design: contract with Temporal).

    The argument is a RunRequest as plain JSON; a second one carries the state of a run that
    continued as new. Neither is trusted: a bad request ends the run with a typed failure.
    """

    @workflow.init
    def __init__(self, request: Any = None, *carried: Any) -> None:
        self._clock = WorkflowClock()
        self._refusal: UsageError | None = None
        self._runtime = TemporalRuntime(Loop(self._first_state(request, carried), self._clock))

    @workflow.run
    async def run(self, request: Any = None, *carried: Any) -> Any:
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

    # One raw handler for all names: with a handler per name, the SDK fails the workflow task for
    # ever over a second argument, and keeps a misspelt name unread.
    @workflow.signal(dynamic=True, description=f"One of: {', '.join(get_args(ControlName))}")
    def control(self, name: str, arguments: Sequence[RawValue]) -> None:
        """Take a signal; what each carries is in `zidane_core.control`."""
        control = _parsed(name, arguments)
        if isinstance(control, Refused):
            workflow.logger.warning("Refused signal %s: %s", name, control.reason)
        self._runtime.inbox.append(control)

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

    def _first_state(self, request: Any, carried: Sequence[Any]) -> RunState:
        # Only a run that continued itself brings a state; that one failing to read is a fault of
        # ours, which retried tasks survive until it is mended.
        if carried and workflow.info().continued_run_id is not None:
            return RunState.model_validate(carried[0])
        workflow_id = workflow.info().workflow_id
        session_id = workflow_id.removeprefix(WORKFLOW_ID_PREFIX)
        agent, packed = "", None
        try:
            wanted = parse_request(request)
            if carried:
                raise InvalidRequestError(
                    f"AgentRun takes one argument, a run request; got {len(carried) + 1}."
                )
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


def _parsed(name: str, arguments: Sequence[RawValue]) -> Control:
    if name not in get_args(ControlName):
        known = ", ".join(get_args(ControlName))
        return Refused(name=name[:100], reason=f"no such signal; known: {known}")
    if len(arguments) > 1:
        return Refused(name=name, reason=f"a signal takes one argument, got {len(arguments)}")
    payload = arguments[0].payload if arguments else Payload()
    size = len(payload.data)
    try:
        value = (
            workflow.payload_converter().from_payload(payload)
            if payload.metadata and size <= MAX_PAYLOAD_BYTES
            else None
        )
        return parse_control(cast(ControlName, name), value, size=size)
    except Exception as error:
        # Whatever a sender made of its payload is its own fault, never the run's.
        return Refused(name=name, reason=f"the payload cannot be read: {error}"[:500])


def _refused(reason: str) -> ApplicationError:
    return ApplicationError(f"Answer refused: {reason}.", type="AnswerRefused", non_retryable=True)
