"""Puts workflows, activities and agents together: `run_worker` and `ZidanePlugin`."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version

from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.plugin import SimplePlugin
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerConfig

from activities.dependencies import Dependencies, agents_by_name
from activities.home import store_url
from activities.providers.base import Provider
from activities.providers.catalog import set_model_catalog
from activities.providers.registry import Providers
from activities.registry import all_activities, decide_activity
from activities.store import Store, open_store
from workflows.agent_run import AgentRun
from workflows.decide import ZidaneDecide
from workflows.whole_tasks import WholeTasksRunner
from zidane_core.agent import Agent
from zidane_core.errors import InternalError, ServerUnreachableError
from zidane_core.models import ModelCatalog

log = logging.getLogger("zidane.worker")

DEFAULT_TASK_QUEUE = "zidane"
GRACEFUL_SHUTDOWN = timedelta(seconds=10)
MAX_OPEN_STREAMS = 500
"""Activities at once in one worker: an open model stream costs little but a slot."""


def task_queue() -> str:
    """Return `ZIDANE_TASK_QUEUE`, or `zidane`."""
    return os.environ.get("ZIDANE_TASK_QUEUE") or DEFAULT_TASK_QUEUE


class ZidanePlugin(SimplePlugin):
    """Adds agent runs to an existing Temporal client or worker.

    Put it on the client and every worker of that client runs agents; its payload converter
    stays as it is. On a client that only starts runs it does nothing.

    Args:
        agents: What the worker can run; names must differ.
        store: URL of the session store, or an open Store (not closed then); `ZIDANE_STORE`
            when None.
        providers: More model providers by name, over the built-in ones.
        model_catalog: Facts of models for the whole process, as `set_model_catalog` takes them;
            None leaves what is set (CAT-01, CAT-03).

    Raises:
        InvalidRequestError: Two agents share a name, or the catalogue is malformed.
    """

    def __init__(
        self,
        agents: Sequence[Agent] = (),
        *,
        store: str | Store | None = None,
        providers: Mapping[str, Provider] | None = None,
        model_catalog: ModelCatalog | None = None,
    ) -> None:
        if model_catalog is not None:
            set_model_catalog(model_catalog)
        self._agents = agents_by_name(agents)
        self._store = store
        self._providers = providers or {}
        self._deps: Dependencies | None = None
        super().__init__(
            "zidane",
            workflows=[AgentRun, ZidaneDecide],
            activities=[
                *all_activities(self._dependencies),
                decide_activity(self._dependencies),
            ],
            run_context=self._running,
        )

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Add workflows and activities; set what durability and recovery time depend on."""
        config = super().configure_worker(config)
        # A message for a run whose worker was killed waits this long for that worker.
        config["sticky_queue_schedule_to_start_timeout"] = timedelta(seconds=1)
        # Cancellation travels in the answer to a heartbeat, so heartbeats must not be held back.
        config["max_heartbeat_throttle_interval"] = timedelta(seconds=1)
        config["default_heartbeat_throttle_interval"] = timedelta(seconds=1)
        if config.get("graceful_shutdown_timeout", timedelta()) == timedelta():
            config["graceful_shutdown_timeout"] = GRACEFUL_SHUTDOWN
        if type(config.get("unsandboxed_workflow_runner")) is UnsandboxedWorkflowRunner:
            config["unsandboxed_workflow_runner"] = WholeTasksRunner("AgentRun")
        if config.get("tuner") is None and config.get("max_concurrent_activities") is None:
            config["max_concurrent_activities"] = MAX_OPEN_STREAMS
        return config

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """Run the worker with the store open, and workflow code on whole tasks."""
        runner = worker.config(active_config=True).get("unsandboxed_workflow_runner")
        if isinstance(runner, WholeTasksRunner):
            # The SDK has no public way to ask for an eviction.
            core = worker._bridge_worker  # pyright: ignore[reportPrivateUsage] -- see above
            runner.evict = core.request_workflow_eviction
        await super().run_worker(worker, next)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the agents, in order."""
        return tuple(self._agents)

    def _dependencies(self) -> Dependencies:
        if self._deps is None:
            raise InternalError("An activity was called while no worker runs.")
        return self._deps

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[None]:
        if self._deps is not None:
            yield
            return
        async with OpenedStore(self._store) as store:
            providers = Providers(self._providers)
            self._deps = Dependencies(store=store, providers=providers, agents=self._agents)
            try:
                yield
            finally:
                self._deps = None
                await providers.close()


class OpenedStore:
    """Opens the store of a URL and closes it; leaves a Store that was handed in open."""

    def __init__(self, store: str | Store | None) -> None:
        self._wanted = store
        self._opened: Store | None = None

    async def __aenter__(self) -> Store:
        """Return the store, open."""
        if isinstance(self._wanted, Store):
            return self._wanted
        self._opened = await open_store(self._wanted or store_url())
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        """Close what was opened here."""
        if self._opened is not None:
            await self._opened.close()


async def connect(*, runtime: Runtime | None = None) -> Client:
    """Connect to the Temporal server of the environment or profile (`TEMPORAL_*`).

    Raises:
        ServerUnreachableError: None is configured, or it does not answer; says what to do.
    """
    config = ClientConfig.load_client_connect_config()
    address = config.get("target_host")
    if address is None:
        raise ServerUnreachableError(
            "No Temporal server is configured. Set TEMPORAL_ADDRESS (for example "
            "localhost:7233), or run `zidane dev` for an embedded one."
        )
    return await connect_to(address, config_namespace=config.get("namespace"), runtime=runtime)


async def connect_to(
    address: str, *, config_namespace: str | None = None, runtime: Runtime | None = None
) -> Client:
    """Connect to a server at an address, with the environment's other settings.

    Raises:
        ServerUnreachableError: It does not answer.
    """
    config = ClientConfig.load_client_connect_config()
    config["target_host"] = address
    if config_namespace is not None:
        config["namespace"] = config_namespace
    try:
        return await Client.connect(
            **config, data_converter=_data_converter(), runtime=runtime or Runtime.default()
        )
    except RuntimeError as error:
        raise ServerUnreachableError(
            f"No Temporal server answers at {address}. Start one (`zidane dev` runs an embedded "
            "one, `docker compose up` a full one), or set TEMPORAL_ADDRESS.",
            address=address,
        ) from error


def _data_converter() -> DataConverter:
    if not os.environ.get("ZIDANE_PAYLOAD_KEY"):
        return DataConverter.default
    # Only runs with a key pay for the cipher's 10 MB.
    from activities.payload_codec import data_converter

    return data_converter()


def metrics_runtime(bind: str) -> Runtime:
    """Return a runtime that serves the SDK's metrics for Prometheus at `host:port`."""
    return Runtime(telemetry=TelemetryConfig(metrics=PrometheusConfig(bind_address=bind)))


async def run_worker(
    agents: Sequence[Agent],
    *,
    client: Client | None = None,
    queue: str | None = None,
    store: str | Store | None = None,
    providers: Mapping[str, Provider] | None = None,
    model_catalog: ModelCatalog | None = None,
    metrics: str | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run a worker until SIGINT or SIGTERM, then drain it.

    Draining: no new work is taken, calls and streams get ten seconds to finish, and what is
    then still running is tried again by another worker.

    Args:
        agents: What it can run.
        client: A connected client; None connects by `TEMPORAL_*`.
        queue: Task queue; None is `ZIDANE_TASK_QUEUE` or `zidane`.
        store: URL or open Store; None is `ZIDANE_STORE` or SQLite under `ZIDANE_HOME`.
        providers: More model providers by name.
        model_catalog: Facts of models for the whole process (see ZidanePlugin).
        metrics: `host:port` for Prometheus, only when the client is made here; None is off.
        stop: Ends the worker when set, as the signals do.

    Raises:
        ServerUnreachableError: No server answers.
        StoreError: The store cannot be opened.
        InvalidRequestError: Two agents share a name, or the catalogue is malformed.
    """
    runtime = metrics_runtime(metrics) if metrics is not None else None
    client = client or await connect(runtime=runtime)
    stopped = stop or asyncio.Event()
    async with OpenedStore(store) as opened:
        plugin = ZidanePlugin(
            agents, store=opened, providers=providers, model_catalog=model_catalog
        )
        # Without an id of its own the SDK hashes every loaded module, a third of a second.
        build_id = f"zidane-{version('zidane')}"
        worker = Worker(
            client, task_queue=queue or task_queue(), plugins=[plugin], build_id=build_id
        )
        with _stopping_on_signals(stopped):
            async with worker:
                log.info("Worker polls %r with agents %s", worker.task_queue, list(plugin.names))
                await stopped.wait()
                log.info("Worker drains")


@contextlib.contextmanager
def _stopping_on_signals(stopped: asyncio.Event) -> Generator[None]:
    loop = asyncio.get_running_loop()
    caught: list[signal.Signals] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        # Only the main thread may catch signals; elsewhere `stop` is the way.
        with contextlib.suppress(ValueError, NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, stopped.set)
            caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
