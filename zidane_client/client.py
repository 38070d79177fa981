"""ZidaneClient: starts runs on a Temporal server and finds those that are there."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import JsonValue
from temporalio.client import Client

from activities.store import Store
from worker import connect, connect_to
from worker import task_queue as configured_task_queue
from zidane_client.connection import Connection, configured_address
from zidane_client.deciding import decide
from zidane_client.handle import RunHandle
from zidane_client.listing import RunSummary, find_run, list_summaries
from zidane_client.starting import ModelChoice, start_run
from zidane_core.agent import Agent
from zidane_core.behavior import AgentBehavior, ThinkingLevel
from zidane_core.content import Prompt
from zidane_core.decisions import DecisionOutcome, DecisionRequest
from zidane_core.runs import OnProviderFailure


class ZidaneClient:
    """Starts runs and finds them again.

    Args:
        temporal: A connected client; its data converter stays as it is.
        store: URL of the session store or an open Store; None is `ZIDANE_STORE`, or SQLite under
            `ZIDANE_HOME`. Opened when events, transcripts or lists are first asked for.
        task_queue: Where runs are started; None is `ZIDANE_TASK_QUEUE` or `zidane`.

    Implements: DUR-03, RUN-01, K-TEMPORAL-11.
    """

    def __init__(
        self,
        temporal: Client,
        *,
        store: str | Store | None = None,
        task_queue: str | None = None,
    ) -> None:
        self.connection = Connection(
            temporal, store=store, task_queue=task_queue or configured_task_queue()
        )

    @classmethod
    async def connect(
        cls,
        address: str | None = None,
        *,
        namespace: str | None = None,
        store: str | Store | None = None,
        task_queue: str | None = None,
    ) -> Self:
        """Connect to a server; everything not given comes from `TEMPORAL_*` or the profile.

        Raises:
            ServerUnreachableError: None is configured, or it does not answer.
        """
        address = address or configured_address()
        if address is None:
            temporal = await connect()
        else:
            temporal = await connect_to(address, config_namespace=namespace)
        return cls(temporal, store=store, task_queue=task_queue)

    async def start(
        self,
        agent: str | Agent,
        prompt: Prompt | None = None,
        *,
        session_id: str | None = None,
        model: ModelChoice | None = None,
        system: str | None = None,
        thinking: ThinkingLevel | None = None,
        behavior: AgentBehavior | Mapping[str, Any] | None = None,
        model_options: Mapping[str, JsonValue] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        tools: Sequence[str] | None = None,
        hooks: Mapping[str, Sequence[str]] | None = None,
        workspace: str | Path | None = None,
        resume_run_id: str | None = None,
        run_label: str | None = None,
        stream: bool = True,
        on_provider_failure: OnProviderFailure = "park",
    ) -> RunHandle:
        """Start a run and return its handle at once; the run needs no client to go on.

        Arguments are the fields of RunRequest, where each is explained. Relative paths, of the
        workspace and of `scripted:` models, become absolute here.

        Raises:
            InvalidRequestError: A field is wrong, a function was given, or the request is over
                256 KiB; nothing was started.
            UnknownModelError: A model is not of the form `provider:model`.
            SessionBusyError: The session has an open run.
            ServerUnreachableError: The server does not answer; nothing was started.
        """
        session, run = await start_run(
            self.connection,
            agent,
            {
                "prompt": prompt,
                "session_id": session_id,
                "model": model,
                "system": system,
                "thinking": thinking,
                "behavior": behavior,
                "model_options": model_options,
                "metadata": metadata,
                "tools": tools,
                "hooks": hooks,
                "workspace": workspace,
                "resume_run_id": resume_run_id,
                "run_label": run_label,
                "stream": stream,
                "on_provider_failure": on_provider_failure,
            },
        )
        return RunHandle(self.connection, session_id=session, run_id=run)

    async def decide(
        self,
        request: DecisionRequest | Mapping[str, Any],
        *,
        agent: str | Agent | None = None,
        throw: bool = False,
    ) -> DecisionOutcome:
        """Ask a small model typed questions about some evidence, once; outside any run.

        Made on a worker, which has the keys. When no worker polls the task queue the answer is a
        failure of reason `unavailable`, some seconds after the request's time limit.

        Args:
            request: Evidence and questions, 256 KiB at most.
            agent: Whose options, models and `decision:*` hooks count; None wants a model as
                `provider:model` in the request.
            throw: Raise instead of returning a failure.

        Raises:
            DecisionError: Only with `throw`.

        Implements: DEC-01.
        """
        return await decide(self.connection, request, agent, throw=throw)

    async def handle(self, id: str) -> RunHandle:
        """Return the run that a session id, a run id, or a unique beginning of one names.

        A session stands for its latest run.

        Raises:
            UsageError: Nothing matches, or several do; lists them.
        """
        session_id, run_id = await find_run(self.connection, id)
        return RunHandle(self.connection, session_id=session_id, run_id=run_id)

    async def list_runs(self, limit: int = 50) -> tuple[RunSummary, ...]:
        """Return runs, newest first; also those that no worker has set up yet."""
        return await list_summaries(self.connection, limit)

    async def store(self) -> Store:
        """Return the session store, opened on first use."""
        return await self.connection.store()

    async def close(self) -> None:
        """Close the store if this client opened it."""
        await self.connection.close()

    async def __aenter__(self) -> Self:
        """Return the client itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, as `close` does."""
        await self.close()
