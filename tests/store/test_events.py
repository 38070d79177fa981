import asyncio
import threading
from collections.abc import Sequence

import pytest

from activities.store import EventWriter, Store
from activities.store.events import MAX_PENDING_BYTES
from activities.store.opening import open_driver
from activities.store.work import Watch
from tests.store.builders import Session, assistant, event, user
from tests.store.drivers import CountingDriver
from zidane_core.errors import StoreError
from zidane_core.events import RunEvent


async def test_a_cursor_sees_each_event_once(session: Session, store: Store, other: Store):
    """DUR-08."""
    await session.start()
    seen: list[RunEvent] = []
    cursor = 0
    for round_ in range(5):
        await store.append_events([event("text", f"t{round_}", delta=str(n)) for n in range(3)])
        while batch := await other.events_after("s1", cursor, limit=2):
            seen += batch
            cursor = batch[-1].seq

    assert [entry.fields["delta"] for entry in seen] == ["0", "1", "2"] * 5
    assert [entry.turn_id for entry in seen[::3]] == ["t0", "t1", "t2", "t3", "t4"]
    assert [entry.seq for entry in seen] == sorted({entry.seq for entry in seen})
    assert await other.last_event_seq("s1") == cursor
    assert await other.events_after("s2", 0) == ()
    assert await other.last_event_seq("s2") == 0


async def test_a_cursor_is_never_overtaken_by_new_events(session: Session, store: Store):
    """A number is not used again when the live pieces with the highest ones are deleted."""
    await session.start()
    await session.begin("a1", "u1")
    await store.append_events([event("text", "a1", delta="x")])
    cursor = await store.last_event_seq("s1")
    await session.commit(assistant("a1", "u1"), event("turn:done", "a1"))

    assert [entry.name for entry in await store.events_after("s1", cursor)] == ["turn:done"]


async def test_concurrent_writers_hide_nothing_from_a_cursor(
    session: Session, store: Store, other: Store
):
    """On PostgreSQL a lower number could otherwise be committed after a higher one was read."""
    await session.start()
    stop = asyncio.Event()

    async def write(writer: Store, name: str) -> None:
        for number in range(60):
            await writer.append_events([event("text", name, delta=f"{name}{number}")])

    async def follow() -> list[str]:
        cursor, seen = 0, list[str]()
        while True:
            is_last = stop.is_set()
            batch = await store.events_after("s1", cursor)
            seen += [str(entry.fields["delta"]) for entry in batch]
            cursor = batch[-1].seq if batch else cursor
            if is_last and not batch:
                return seen

    follower = asyncio.create_task(follow())
    await asyncio.gather(write(store, "x"), write(other, "y"), write(other, "z"))
    stop.set()
    seen = await follower

    assert len(seen) == 180
    assert set(seen) == {f"{name}{number}" for name in "xyz" for number in range(60)}


async def test_a_commit_takes_its_live_pieces_along(session: Session, store: Store):
    await session.start()
    await session.begin("a1", "u1")
    await store.append_events([event("text", "a1", delta="one")])
    store.events.emit(event("text", "a1", delta="two"))
    store.events.emit(event("text", "other", delta="stays"))

    await session.commit(assistant("a1", "u1"), event("turn:done", "a1"))
    await store.events.flush()

    left = [(entry.name, entry.turn_id) for entry in await store.events_after("s1", 0)]
    assert left == [("turn:done", "a1"), ("text", "other")]


async def test_a_stale_writer_leaves_no_piece_behind_a_commit(
    session: Session, store: Store, other: Store
):
    """K-STORE-03: its flush comes after another process has committed the turn."""
    await session.start()
    await session.begin("a1", "u1")
    other.events.emit(event("text", "a1", delta="stale"))
    other.events.emit(event("turn:started", "a1"))

    await session.commit(assistant("a1", "u1"))
    await other.events.flush()

    assert [entry.name for entry in await store.events_after("s1", 0)] == ["turn:started"]


async def test_flushes_racing_with_commits_leave_no_piece_behind(
    session: Session, store: Store, other: Store
):
    await session.start()
    head = "u1"
    for number in range(25):
        turn_id = f"a{number}"
        await session.begin(turn_id, head)
        piece = event("text", turn_id, delta="x")
        await asyncio.gather(
            other.append_events([piece]),
            session.commit(assistant(turn_id, head)),
            other.append_events([piece]),
        )
        head = turn_id

    assert await store.events_after("s1", 0) == ()


async def test_pieces_of_a_stream_are_merged_in_order(session: Session, store: Store):
    await session.start()
    for number in range(10):
        store.events.emit(event("text", "a1", delta=f"{number}"))
        store.events.emit(event("text", "b1", delta=f"{number}"))
    store.events.emit(event("thinking", "a1", delta="hm"))
    store.events.emit(event("text", "a1", delta="!"))
    store.events.emit(event("text", "a1", attempt=2, delta="again"))
    await store.events.flush()

    seen = [
        (entry.turn_id, entry.attempt, entry.name, entry.fields["delta"])
        for entry in await store.events_after("s1", 0)
    ]
    assert seen == [
        ("a1", 1, "text", "0123456789"),
        ("b1", 1, "text", "0123456789"),
        ("a1", 1, "thinking", "hm"),
        ("a1", 1, "text", "!"),
        ("a1", 2, "text", "again"),
    ]


async def test_events_are_written_without_being_asked_to(session: Session, store: Store):
    await session.start()
    store.events.emit(event("text", "a1", delta="x"))

    assert await store.wait_events("s1", 0, 20)


async def test_an_event_may_come_from_a_thread(session: Session, store: Store):
    await session.start()
    thread = threading.Thread(
        target=store.events.emit, args=(event("tool:progress", "a1", call_id="c1"),)
    )
    thread.start()
    thread.join()

    assert await store.wait_events("s1", 0, 20)


async def test_closing_writes_what_is_pending(session: Session, store: Store, url: str):
    await session.start()
    second = Store(await open_driver(url))
    second.events.emit(event("text", "a1", delta="last words"))
    await second.close()

    assert [entry.fields for entry in await store.events_after("s1", 0)] == [
        {"delta": "last words"}
    ]


async def test_events_wait_while_the_store_is_out_of_reach(store: Store, url: str):
    driver = CountingDriver(await open_driver(url))
    driver.is_out_of_reach = True
    writer = Store(driver)
    writer.events.emit(event("text", "a1", delta="one"))
    writer.events.emit(event("run:parked"))
    await writer.events.close()
    writer.events.emit(event("text", "a1", delta=" two"))
    driver.is_out_of_reach = False
    await writer.events.flush()

    seen = [(entry.name, entry.fields) for entry in await store.events_after("s1", 0)]
    await writer.close()
    assert seen == [
        ("text", {"delta": "one"}),
        ("run:parked", {}),
        ("text", {"delta": " two"}),
    ]


async def test_events_that_the_database_refuses_do_not_hold_up_others():
    written: list[RunEvent] = []

    async def write(events: Sequence[RunEvent]) -> None:
        if events[0].name == "run:paused":
            raise StoreError("refused", retryable=False)
        written.extend(events)

    writer = EventWriter(write)
    writer.emit(event("run:paused"))
    with pytest.raises(StoreError, match="refused"):
        await writer.flush()
    writer.emit(event("run:resumed"))
    await writer.close()

    assert [entry.name for entry in written] == ["run:resumed"]
    assert writer.dropped == 1


async def test_an_outage_does_not_grow_without_bound():
    written: list[RunEvent] = []

    async def write(events: Sequence[RunEvent]) -> None:
        written.extend(events)

    writer = EventWriter(write)
    piece = "x" * 100_000
    writer.emit(event("run:parked"))
    for number in range(2 * MAX_PENDING_BYTES // len(piece)):
        writer.emit(event("text", f"t{number}", delta=piece))
    await writer.close()

    assert writer.dropped > 0
    assert written[0].name == "run:parked"
    assert sum(len(str(entry.fields)) for entry in written) <= MAX_PENDING_BYTES


async def test_streams_share_their_commits(store: Store, url: str):
    """Design 7: the cost does not grow with the number of streams."""
    driver = CountingDriver(await open_driver(url))
    writer = Store(driver)
    for number in range(50):
        for _ in range(20):
            writer.events.emit(event("text", f"t{number}", delta="x"))
    await writer.close()

    assert driver.transactions == 1
    assert len(await store.events_after("s1", 0)) == 50


async def test_a_watcher_wakes_when_another_store_writes(
    session: Session, store: Store, other: Store
):
    await session.start()
    waiting = asyncio.create_task(other.wait_events("s1", 0, 20))
    await session.begin("a1", "u1", user("u2"))
    await session.commit(assistant("a1", "u2"), event("turn:done", "a1"))

    assert await waiting
    assert await other.wait_events("s1", 0, 0)


async def test_every_write_of_events_wakes_watchers_of_its_session(
    session: Session, store: Store, url: str
):
    """By notification, not because the watcher looks again after a while."""
    await session.start()
    await session.begin("a1", "u1")
    driver = await open_driver(url)
    async with driver.watch("s1") as watch:
        await store.append_events([event("text", "a1", delta="x")])
        assert await _is_woken(watch)
        await session.commit(assistant("a1", "u1"), event("turn:done", "a1"))
        assert await _is_woken(watch)
    await driver.close()


async def _is_woken(watch: Watch) -> bool:
    for _ in range(5):
        if await watch.changed(4):
            return True
    return False


async def test_a_watcher_gives_up_when_time_is_over(session: Session, store: Store):
    await session.start()

    assert not await store.wait_events("s1", 0, 0.01)


async def test_an_event_of_a_repeated_request_is_stored_once(store: Store):
    """DUR-02: an activity that is tried again writes its events again."""
    event = RunEvent(run_id="r", session_id="s", name="steer:inject", origin="host-1/0")
    other = event.model_copy(update={"origin": "host-1/1"})
    plain = RunEvent(run_id="r", session_id="s", name="turn:done")
    for _ in range(2):
        await store.append_events([event, other, plain])
    names = [(found.name, found.origin) for found in await store.events_after("s", 0)]
    assert names == [
        ("steer:inject", "host-1/0"),
        ("steer:inject", "host-1/1"),
        ("turn:done", None),
        ("turn:done", None),
    ]
