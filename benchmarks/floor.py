"""The floor: a bare Temporal workflow that does as many activities of the same kinds as a run.

Its activities do nothing and take and return small dicts. Workflow, converter and worker are as
Temporal's own examples have them.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow

LIMIT = timedelta(hours=1)


@workflow.defn
class Floor:
    """A start, then a model and a tool activity per turn, a last model activity, and an end."""

    @workflow.run
    async def run(self, job: dict[str, Any]) -> dict[str, Any]:
        """Take {"turns", "local", "first"}; goes on as new when the server suggests it."""
        first = job["first"]
        if not first:
            await _do("floor_step", {"kind": "start"})
        for number in range(first, job["turns"]):
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new({**job, "first": number})
            await _do("floor_model", {"number": number})
            if job["local"]:
                await workflow.execute_local_activity(
                    "floor_step", {"kind": "tool"}, start_to_close_timeout=LIMIT
                )
            else:
                await _do("floor_step", {"kind": "tool"})
        await _do("floor_model", {"number": job["turns"]})
        await _do("floor_step", {"kind": "end"})
        return {"status": "completed"}


async def _do(name: str, argument: dict[str, Any]) -> None:
    await workflow.execute_activity(name, argument, start_to_close_timeout=LIMIT)


def floor_activities(
    gate: Callable[[int], Awaitable[None]] | None,
) -> list[Callable[..., Awaitable[dict[str, Any]]]]:
    """Return the activities; the model's awaits the gate, as the double of ours does."""

    @activity.defn
    async def floor_model(argument: dict[str, Any]) -> dict[str, Any]:
        if gate is not None:
            await gate(argument["number"])
        return {"status": "ok", "number": argument["number"]}

    @activity.defn
    async def floor_step(argument: dict[str, Any]) -> dict[str, Any]:
        return {"status": "ok", "kind": argument["kind"]}

    return [floor_model, floor_step]
