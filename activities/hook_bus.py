"""An event's handlers, in order, under the watchdog; the table of events is the core's."""

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from zidane_core.decisions import CancelFlag, Decide
from zidane_core.errors import AgentError, OperationTimeoutError
from zidane_core.hooks import HOOKS, Handler, HookContext, HookPayload

log = logging.getLogger("zidane.hooks")
P = TypeVar("P", bound=HookPayload)

DeciderOf = Callable[["HookBus", str, HookContext, CancelFlag], Decide]
"""Gives an event's handlers their `decide`; the flag is set when they are told to stop."""


class HookBus:
    """Fires events to the handlers of one run.

    Args:
        handlers: By event, in order.
        timeout_ms: For the events that are timed; 0 is no limit.
        decider: Makes `decide` for handlers; None leaves them without.

    Implements: HOOK-01, HOOK-02, HOOK-04, HOOK-05, HOOK-07.
    """

    def __init__(
        self,
        handlers: Mapping[str, tuple[Handler, ...]],
        *,
        timeout_ms: int,
        decider: DeciderOf | None = None,
    ) -> None:
        self._handlers = handlers
        self._decider = decider
        self._timeout_s = timeout_ms / 1000 if timeout_ms > 0 else None

    def handles(self, name: str) -> bool:
        """Say whether anyone handles the event; ask before building a payload."""
        return bool(self._handlers.get(name))

    async def fire(self, name: str, payload: P) -> P:
        """Call the event's handlers one after the other, each with the same payload.

        A handler that fails or takes too long is logged and the others go on, unless the event
        is fail-closed: a half-applied transform must not reach the wire.

        Returns:
            The payload; only its mutable fields (`HOOKS[name].mutable`) are worth reading.

        Raises:
            OperationTimeoutError: A fail-closed event took longer than `hook_timeout_ms`.
            AgentError: A handler of a fail-closed event raised.
        """
        spec = HOOKS[name]
        handlers = self._handlers.get(name, ())
        stop = threading.Event()
        if handlers and self._decider is not None and isinstance(payload, HookContext):
            payload.attach_decide(self._decider(self, name, payload, stop))
        for handler in handlers:
            try:
                async with asyncio.timeout(self._timeout_s if spec.is_timed else None):
                    await _call(handler, payload, stop)
            except TimeoutError as error:
                text = f"A handler of {name!r} ({_name(handler)}) took over {self._timeout_s} s."
                if spec.fail_closed:
                    raise OperationTimeoutError(
                        f"{text} Make it faster, or raise behavior.hook_timeout_ms.", hook=name
                    ) from error
                log.warning(text)
            except Exception as error:
                if spec.fail_closed:
                    raise AgentError(
                        f"A handler of {name!r} ({_name(handler)}) failed: "
                        f"{type(error).__name__}: {error}",
                        hook=name,
                    ) from error
                log.warning("A handler of %r (%s) failed", name, _name(handler), exc_info=True)
        return payload


async def _call(handler: Handler, payload: HookPayload, stop: threading.Event) -> None:
    if inspect.iscoroutinefunction(handler):
        await handler(payload)
        return
    # A plain handler may block (K-TEMPORAL-04), so it gets a thread, like a plain tool body.
    try:
        outcome = await asyncio.to_thread(handler, payload)
    except asyncio.CancelledError:
        stop.set()
        raise
    if inspect.isawaitable(outcome):
        await outcome


def _name(handler: Handler) -> str:
    return getattr(handler, "__qualname__", repr(handler))
