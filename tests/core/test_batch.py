from hypothesis import given
from hypothesis import strategies as st

from tests.support.loop_driver import note
from zidane_core.rules.batch import (
    Batch,
    CallSlot,
    SlotState,
    is_settled,
    next_calls,
    with_slot,
    with_waiting_made,
)

flags = st.lists(st.booleans(), max_size=12)
caps = st.integers(-2, 5)


def batch_of(safe: list[bool]) -> Batch:
    return tuple(CallSlot(note=note(f"c{n}", safe=flag)) for n, flag in enumerate(safe))


def started(batch: Batch, chosen: tuple[CallSlot, ...]) -> Batch:
    for slot in chosen:
        batch = with_slot(batch, slot.note.id, SlotState.RUNNING)
    return batch


def running(batch: Batch) -> list[CallSlot]:
    return [slot for slot in batch if slot.state is SlotState.RUNNING]


@given(flags, caps, st.data())
def test_the_laws_of_a_batch(safe: list[bool], cap: int, data: st.DataObject):
    """TOOL-02: never more than the cap, unsafe alone, in order, no overtaking, nothing starves."""
    batch = batch_of(safe)
    begun: list[str] = []
    while not is_settled(batch):
        chosen = next_calls(batch, max_concurrent=cap)
        begun += [slot.note.id for slot in chosen]
        batch = started(batch, chosen)
        busy = running(batch)
        assert busy, "calls are left and none may start"
        assert len(busy) <= max(1, cap)
        if any(not slot.note.is_safe for slot in busy):
            assert len(busy) == 1
        assert next_calls(batch, max_concurrent=cap) == ()
        done = data.draw(st.sampled_from(busy))
        batch = with_slot(batch, done.note.id, SlotState.DONE)
    assert begun == [slot.note.id for slot in batch]


@given(flags, st.integers(1, 5))
def test_as_many_run_as_may(safe: list[bool], cap: int):
    """TOOL-02: an idle slot means that a barrier or the end of the list stands in the way."""
    chosen = next_calls(batch_of(safe), max_concurrent=cap)
    head = safe.index(False) if False in safe else len(safe)
    assert len(chosen) == (min(cap, head) if head else min(1, len(safe)))


def test_a_barrier_waits_for_the_fleet_and_holds_up_those_behind_it():
    batch = batch_of([True, False, True])
    first = next_calls(batch, max_concurrent=10)
    assert [slot.note.id for slot in first] == ["c0"]
    batch = started(batch, first)
    assert next_calls(batch, max_concurrent=10) == ()
    batch = with_slot(batch, "c0", SlotState.DONE)
    assert [slot.note.id for slot in next_calls(batch, max_concurrent=10)] == ["c1"]


def test_only_waiting_calls_get_a_made_result():
    """CTL-06: what has begun is not thrown away."""
    batch = with_slot(batch_of([True, True, True]), "c0", SlotState.DONE)
    batch = with_slot(batch, "c1", SlotState.RUNNING)
    made = with_waiting_made(batch, "skipped")
    assert [(slot.state, slot.made) for slot in made] == [
        (SlotState.DONE, None),
        (SlotState.RUNNING, None),
        (SlotState.DONE, "skipped"),
    ]


def test_an_empty_batch_is_settled():
    assert is_settled(())
    assert next_calls((), max_concurrent=3) == ()
