"""Connection: what a client and its run handles share; the store in it is opened on first use."""

import asyncio
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError, RPCStatusCode

from activities.store import Store
from worker import OpenedStore
from zidane_core.errors import ServerUnreachableError, UsageError

WORKFLOW_TYPE = "AgentRun"
WORKFLOW_ID_PREFIX = "zidane-"
_OUT_OF_REACH = {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED}


def configured_address() -> str | None:
    """Return the server of `TEMPORAL_ADDRESS` or the profile; None when neither names one.

    Raises:
        UsageError: The profile or its file cannot be read.
    """
    try:
        return ClientConfig.load_client_connect_config().get("target_host")
    except (RuntimeError, ValueError, OSError) as error:
        raise UsageError(
            f"The Temporal profile cannot be read: {error}. Check TEMPORAL_PROFILE and "
            "TEMPORAL_CONFIG_FILE."
        ) from error


class Connection:
    """A Temporal client, a task queue, and a store that is opened when first needed.

    Args:
        temporal: Connected.
        store: URL or an open Store, which is not closed here; None is `ZIDANE_STORE` or SQLite
            under `ZIDANE_HOME`.
        task_queue: Where runs are started.
    """

    def __init__(self, temporal: Client, *, store: str | Store | None, task_queue: str) -> None:
        self.temporal = temporal
        self.task_queue = task_queue
        self._wanted = store
        self._store: Store | None = None
        self._opening = asyncio.Lock()
        self._opened = AsyncExitStack()

    @property
    def address(self) -> str:
        """`host:port` of the server."""
        return self.temporal.service_client.config.target_host

    async def store(self) -> Store:
        """Return the store, open.

        Raises:
            StoreError: It cannot be opened.
        """
        async with self._opening:
            if self._store is None:
                self._store = await self._opened.enter_async_context(OpenedStore(self._wanted))
            return self._store

    async def close(self) -> None:
        """Close what was opened here."""
        await self._opened.aclose()
        self._store = None

    @contextmanager
    def calling(self) -> Generator[None]:
        """Turn the failures of a call to the server that callers can act on into ours.

        Raises:
            ServerUnreachableError: The server does not answer any more.
            UsageError: The namespace does not exist, or access is denied.
        """
        try:
            yield
        except RPCError as error:
            if error.status in _OUT_OF_REACH:
                raise ServerUnreachableError(
                    f"The Temporal server at {self.address} does not answer ({error.message}). "
                    "Check that it runs and that TEMPORAL_ADDRESS is right.",
                    address=self.address,
                ) from error
            if error.status in (RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED):
                raise UsageError(
                    f"The Temporal server at {self.address} refuses the access: {error.message}. "
                    "Check TEMPORAL_API_KEY or the client certificate."
                ) from error
            if error.status is RPCStatusCode.NOT_FOUND and "amespace" in error.message:
                raise UsageError(
                    f"Temporal namespace {self.temporal.namespace!r} does not exist on "
                    f"{self.address}. Set TEMPORAL_NAMESPACE, or create it."
                ) from error
            raise
