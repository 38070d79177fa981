import asyncio
from collections.abc import Awaitable, Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from activities.store import ResultsTurn, Store, open_store
from tests.store.builders import Session, assistant, call_block, event, user
from zidane_core.content import TextBlock
from zidane_core.session import RunRecord
from zidane_core.tool_state import ToolStateOp

Step = Callable[[Session], Awaitable[object]]
TURNS = 4


def _steps() -> list[Step]:
    """The writes of a run of four model turns with a call each, in their order."""
    steps: list[Step] = [lambda session: session.start()]
    for number in range(TURNS):
        turn_id = f"a{number}"
        head = f"a{number - 1}" if number else "u1"
        more = (ResultsTurn(f"q{number}", "r1", 40, head, ("c1",)),) if number else ()
        parent = f"q{number}" if number else "u1"

        async def begin(
            session: Session,
            turn_id: str = turn_id,
            head: str = head,
            more: tuple[ResultsTurn, ...] = more,
        ):
            await session.begin(turn_id, head, *more)

        async def stream(session: Session, turn_id: str = turn_id):
            await session.store.append_events([event("text", turn_id, delta="piece")])

        async def fail(session: Session, turn_id: str = turn_id, parent: str = parent):
            await session.store.fail_turn(
                session_id="s1",
                run_id="r1",
                turn_id=turn_id,
                attempt=1,
                head=parent,
                now=1,
                partial=(TextBlock(text="piece"),),
                receipt={},
            )

        async def commit(session: Session, turn_id: str = turn_id, parent: str = parent):
            await session.commit(assistant(turn_id, parent, call_block("c1")))

        async def call(session: Session, turn_id: str = turn_id):
            start = await session.begin_call(turn_id, "c1")
            ops = [ToolStateOp(key="last", value=turn_id)]
            await session.finish_call(turn_id, "c1", turn_id, *ops, interrupted=start.interrupted)

        steps += [begin, stream, fail, begin, commit, call]

    async def finish(session: Session):
        record = RunRecord(run_id="r1", session_id="s1", agent="basic", status="completed")
        append = [ResultsTurn("q9", "r1", 50, f"a{TURNS - 1}", ("c1",)), user("u9")]
        await session.store.finish_run(record, append=append, head=f"a{TURNS - 1}")

    return [*steps, finish]


async def _outcome(repeats: dict[int, list[int]], *, writers: int) -> object:
    stores = [await open_store("sqlite://")]
    # A second store with a cache of its own over the same connection.
    stores += [Store(stores[0]._driver) for _ in range(writers - 1)]  # pyright: ignore[reportPrivateUsage] -- an in-memory database has one connection
    sessions = [Session(store) for store in stores]
    steps = _steps()
    for at, step in enumerate(steps):
        await step(sessions[at % writers])
        for number, earlier in enumerate(repeats.get(at, [])):
            await steps[earlier % (at + 1)](sessions[number % writers])
    store = stores[-1]
    head = await store.session_head("s1")
    path = list(await store.path("s1", head))
    outcome = (
        head,
        path,
        list(await stores[0].path("s1", head)),
        await store.tool_state("s1"),
        await store.run("r1"),
        await store.events_after("s1", 0),
    )
    await stores[0].close()
    return outcome


@settings(max_examples=60, deadline=None)
@given(
    repeats=st.dictionaries(
        st.integers(0, 6 * TURNS + 1),
        st.lists(st.integers(0, 6 * TURNS + 1), min_size=1, max_size=4),
        max_size=12,
    ),
    writers=st.integers(1, 3),
)
def test_any_repetition_of_earlier_writes_leaves_the_same_session(
    repeats: dict[int, list[int]], writers: int
):
    """SESS-15, DUR-02, K-STORE-03: whichever write comes again, at any time, by any worker."""

    async def both() -> tuple[object, object]:
        return await _outcome({}, writers=1), await _outcome(repeats, writers=writers)

    plain, repeated = asyncio.run(both())
    assert repeated == plain
