"""Which calls of a turn run now: the cap, barriers, order."""

from enum import StrEnum

from zidane_core.receipts import CallNote
from zidane_core.values import Value


class SlotState(StrEnum):
    """Where a call of the turn stands."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


class CallSlot(Value):
    """One call of the turn that the loop works off."""

    note: CallNote
    state: SlotState = SlotState.WAITING
    made: str | None = None
    """Error result that the loop made itself; None when the store has the result."""


Batch = tuple[CallSlot, ...]
"""A turn's calls in the model's order."""


def next_calls(batch: Batch, *, max_concurrent: int) -> tuple[CallSlot, ...]:
    """Say which calls may start now; an unsafe call runs alone.

    Args:
        batch: The turn's calls in the model's order.
        max_concurrent: Calls at once; values below 1 count as 1.

    Returns:
        The calls to start, in order; empty while a barrier runs or the cap is reached. Calls
        behind a waiting barrier never overtake it.

    Implements: TOOL-02.
    """
    running = [slot for slot in batch if slot.state is SlotState.RUNNING]
    if any(not slot.note.is_safe for slot in running):
        return ()
    room = max(1, max_concurrent) - len(running)
    chosen: list[CallSlot] = []
    for slot in batch:
        if slot.state is not SlotState.WAITING:
            continue
        if not slot.note.is_safe:
            return tuple(chosen) if running or chosen else (slot,)
        if len(chosen) >= room:
            break
        chosen.append(slot)
    return tuple(chosen)


def with_slot(batch: Batch, call_id: str, state: SlotState, made: str | None = None) -> Batch:
    """Return the batch with one call's state replaced."""
    return tuple(
        slot.model_copy(update={"state": state, "made": made}) if slot.note.id == call_id else slot
        for slot in batch
    )


def with_waiting_made(batch: Batch, made: str) -> Batch:
    """Return the batch with every call that has not started answered by the loop itself."""
    return tuple(
        slot.model_copy(update={"state": SlotState.DONE, "made": made})
        if slot.state is SlotState.WAITING
        else slot
        for slot in batch
    )


def is_settled(batch: Batch) -> bool:
    """Say whether every call has its result."""
    return all(slot.state is SlotState.DONE for slot in batch)
