import pytest

from activities.store import Store, open_store
from activities.store.cache import PathView, SessionCache
from activities.store.opening import open_driver
from activities.store.turn_work import StoredTurn
from tests.store.builders import Session, assistant, user
from tests.store.drivers import CountingDriver, run_sql
from zidane_core.errors import StoreError


async def _grow(session: Session, head: str, *turn_ids: str) -> None:
    for turn_id in turn_ids:
        await session.begin(turn_id, head)
        await session.commit(assistant(turn_id, head, text=turn_id))
        head = turn_id


async def test_another_store_reads_only_what_is_new(session: Session, url: str):
    """Design 2: a turn costs the delta."""
    await session.start()
    await _grow(session, "u1", "a1", "a2")
    driver = CountingDriver(await open_driver(url))
    other = Store(driver)

    before = await other.path("s1", "a2")
    await _grow(session, "a2", "a3")
    after = await other.path("s1", "a3")
    await other.path("s1", "a3")
    await other.path("s1", "a1")

    await other.close()
    assert driver.rows_of("path_up") == [3, 1]
    assert [turn.id for turn in before] == ["u1", "a1", "a2"]
    assert [turn.id for turn in after] == ["u1", "a1", "a2", "a3"]


async def test_the_writer_reads_nothing_back(store: Store, url: str):
    driver = CountingDriver(await open_driver(url))
    session = Session(Store(driver))
    await session.start()
    await _grow(session, "u1", *(f"a{number}" for number in range(20)))

    assert len(await session.store.path("s1", "a19")) == 21
    await session.store.close()
    assert driver.rows_of("path_up") == []


async def test_branches_are_read_each_by_its_head(session: Session, other: Store):
    """SESS-15: forks, and what a reset leaves behind."""
    await session.start()
    await _grow(session, "u1", "a1", "a2", "a3")
    await _grow(session, "a1", "b2", "b3")

    for store in (session.store, other):
        reader = Session(store)
        assert await reader.ids("a3") == ["u1", "a1", "a2", "a3"]
        assert await reader.ids("b3") == ["u1", "a1", "b2", "b3"]
        assert await reader.ids("a2") == ["u1", "a1", "a2"]


async def test_a_session_may_continue_a_turn_of_another(session: Session):
    """SESS-15: a fork into a new session shares the turns before it."""
    await session.start()
    await _grow(session, "u1", "a1")
    fork = Session(session.store, session_id="s2", run_id="r2")
    await fork.start(user("u2"), base_head="a1")
    await fork.begin("b1", "u2")
    await fork.commit(assistant("b1", "u2"))

    assert await fork.ids("b1") == ["u1", "a1", "u2", "b1"]
    assert await session.store.session_head("s1") == "a1"


async def test_a_view_stays_as_it_was_while_the_session_grows(session: Session):
    await session.start()
    view = await session.store.path("s1", "u1")
    await _grow(session, "u1", "a1")

    assert len(view) == 1
    assert view[-1].id == "u1"
    assert view[0:5] == (view[0],)
    with pytest.raises(IndexError, match="turn 1 of a path of 1"):
        view[1]


async def test_a_missing_turn_is_an_error_and_not_a_shorter_session(session: Session, url: str):
    """K-STORE-02."""
    await session.start()
    await _grow(session, "u1", "a1", "a2", "a3")
    await run_sql(url, "DELETE FROM turns WHERE id = 'a1'")
    reopened = await open_store(url)

    with pytest.raises(StoreError, match="Turn 'a1' is missing from the store") as caught:
        await reopened.path("s1", "a3")
    await reopened.close()

    assert caught.value.details["retryable"] is False


async def test_an_unknown_head_is_an_error(session: Session):
    await session.start()

    with pytest.raises(StoreError, match="Turn 'nope' is missing"):
        await session.store.path("s1", "nope")
    assert await session.ids("u1") == ["u1"]


async def test_a_long_session_is_read_whole(session: Session, other: Store):
    """More rows than are decoded in the event loop."""
    await session.start(*(user(f"u{number}") for number in range(500)))

    assert await Session(other).ids("u499") == [f"u{number}" for number in range(500)]


def _stored(name: str, count: int, size: int) -> list[StoredTurn]:
    turns: list[StoredTurn] = []
    for depth in range(count):
        parent = f"{name}{depth - 1}" if depth else None
        turn = user(f"{name}{depth}", parent_id=parent)
        turns.append(StoredTurn(turn, depth, size))
    return turns


def test_the_cache_forgets_the_session_used_least_recently():
    cache = SessionCache(max_bytes=3 * 10_000, max_sessions=10)
    for name in "abc":
        cache.add(name, _stored(name, 1, 7_000))
    assert cache.path("a", "a0") is not None

    cache.add("d", _stored("d", 1, 7_000))

    assert cache.path("b", "b0") is None
    assert all(cache.path(name, f"{name}0") is not None for name in "acd")
    assert cache.bytes <= 30_000


def test_the_cache_keeps_the_session_in_use_whatever_its_size():
    cache = SessionCache(max_bytes=10, max_sessions=10)
    cache.add("a", _stored("a", 3, 1_000))
    assert len(cache) == 1
    cache.add("b", _stored("b", 1, 1_000))

    assert cache.path("a", "a2") is None
    assert cache.path("b", "b0") is not None


def test_the_cache_counts_sessions_and_branches():
    cache = SessionCache(max_sessions=2)
    for name in "abc":
        cache.add(name, _stored(name, 2, 100))
    assert len(cache) == 2
    before = cache.bytes

    view = cache.path("c", "c1")
    cache.add("c", [StoredTurn(user("x1", parent_id="c0"), 1, 100)])

    assert cache.bytes == before
    assert isinstance(view, PathView)
    assert [turn.id for turn in view] == ["c0", "c1"]
    branch = cache.path("c", "x1")
    assert branch is not None
    assert [turn.id for turn in branch] == ["c0", "x1"]
