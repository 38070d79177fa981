"""Stores a run's phase and fires the hooks of loop events when no other activity is due."""

from activities.dependencies import Attempt, Dependencies
from activities.loop_events import fire_loop_events, store_events
from zidane_core.receipts import HostCalled
from zidane_core.requests import HostCall


async def host_call(deps: Dependencies, request: HostCall, attempt: Attempt) -> HostCalled:
    """Make phase, reason and events known outside the workflow (K-TEMPORAL-09)."""
    await deps.store.set_phase(
        request.run_id,
        phase=request.phase.value,
        reason=request.reason,
        events=store_events(request),
    )
    if request.events:
        hooks = deps.hooks(await deps.manifest(request.manifest))
        await fire_loop_events(hooks, request, attempt)
    return HostCalled()
