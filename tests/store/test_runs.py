import pytest

from activities.store import Store
from tests.store.builders import Session, assistant, event, user
from zidane_core.content import TextBlock
from zidane_core.errors import StoreError
from zidane_core.session import RunRecord
from zidane_core.usage import AgentStats, TurnUsage


async def test_a_run_reads_back_as_it_was_started(store: Store):
    """SESS-14."""
    record = RunRecord(
        run_id="r1",
        session_id="s1",
        agent="basic",
        prompt="Do it",
        model="scripted:a.yaml",
        started_at=7,
        label="nightly",
        depth=2,
        parent_run_id="r0",
        parent_call_id="c0",
        resumed_from_run_id="r00",
    )
    await store.start_run(record, manifest={"a": [1]}, manifest_hash="m1", turns=[user("u1")])

    expected = record.model_copy(update={"manifest": "m1", "head": "u1"})
    assert await store.run("r1") == expected
    assert await store.latest_run("s1") == expected
    assert await store.manifest("m1") == {"a": [1]}
    assert await store.session_head("s1") == "u1"
    assert await store.session_exists("s1")
    assert not await store.session_exists("s2")
    assert await store.run("r2") is None


async def test_starting_a_run_again_changes_nothing(store: Store, session: Session):
    """DUR-02: a late repetition of start_run must not move the head back."""
    started = event("run:started")
    record = RunRecord(run_id="r1", session_id="s1", agent="basic")

    async def start():
        await store.start_run(
            record, manifest={}, manifest_hash="m1", turns=[user("u1")], events=[started]
        )

    await start()
    await session.begin("a1", "u1")
    await session.commit(assistant("a1", "u1"))
    await start()

    assert await store.session_head("s1") == "a1"
    run = await store.run("r1")
    assert run is not None
    assert (run.head, run.phase) == ("a1", "tools")
    assert [entry.name for entry in await store.events_after("s1", 0)] == ["run:started"]


async def test_finishing_a_run_keeps_what_the_start_stored(store: Store, session: Session):
    """SESS-14."""
    await session.start(prompt="Do it", started_at=3)
    await session.begin("a1", "u1")
    await session.commit(assistant("a1", "u1"))
    await store.set_phase("r1", phase="parked", reason="no key")

    end = await store.finish_run(
        RunRecord(
            run_id="r1",
            session_id="s1",
            agent="basic",
            status="completed",
            ended_at=99,
            stats=AgentStats(turns=1, cost=0.5),
        ),
        append=[user("u2", "bye")],
        head="a1",
    )

    assert end == "u2"
    run = await store.run("r1")
    assert run == RunRecord(
        run_id="r1",
        session_id="s1",
        agent="basic",
        status="completed",
        prompt="Do it",
        started_at=3,
        ended_at=99,
        head="u2",
        manifest="m1",
        phase="done",
        stats=AgentStats(turns=1, cost=0.5),
    )
    assert await store.session_head("s1") == "u2"


async def test_the_first_end_of_a_run_stands(store: Store, session: Session):
    await session.start()
    record = RunRecord(run_id="r1", session_id="s1", agent="basic", status="aborted")

    assert await store.finish_run(record, append=[], head="u1", events=[event("run:done")]) == "u1"
    later = record.model_copy(update={"status": "error", "error": {"type": "X"}})
    again = await store.finish_run(
        later, append=[user("u9")], head="u1", events=[event("run:done")]
    )

    assert again == "u1"
    run = await store.run("r1")
    assert run is not None
    assert (run.status, run.error) == ("aborted", None)
    assert len(await store.events_after("s1", 0)) == 1


async def test_an_ended_run_keeps_its_phase_and_head(store: Store, session: Session):
    """A model turn that is committed after the run was aborted moves no head."""
    await session.start()
    await session.begin("a1", "u1")
    ended = RunRecord(run_id="r1", session_id="s1", agent="basic", status="aborted")
    await store.finish_run(ended, append=[], head="u1")

    await session.commit(assistant("a1", "u1"))
    await store.set_phase("r1", phase="tools", reason=None)

    run = await store.run("r1")
    assert run is not None
    assert (run.head, run.phase) == ("u1", "done")
    assert await store.session_head("s1") == "u1"


async def test_a_turn_of_a_run_that_was_never_started_is_refused(session: Session):
    with pytest.raises(StoreError, match="Run 'r1' is not in the store: call start_run first"):
        await session.commit(assistant("a1", None))

    assert await session.store.turn("a1") is None


async def test_runs_are_listed_newest_first(store: Store):
    for number in range(1, 5):
        run = Session(store, session_id=f"s{number}", run_id=f"r{number}")
        await run.start(user(f"u{number}"), started_at=number)
    await store.finish_run(
        RunRecord(run_id="r2", session_id="s2", agent="basic", status="error"),
        append=[],
        head="u2",
    )

    assert [run.run_id for run in await store.list_runs()] == ["r4", "r3", "r2", "r1"]
    assert [run.run_id for run in await store.list_runs(limit=2)] == ["r4", "r3"]
    assert [run.run_id for run in await store.list_runs(status="running")] == ["r4", "r3", "r1"]


async def test_ids_match_by_prefix_and_an_exact_id_alone(store: Store):
    for run_id, session_id in (("aa1", "x1"), ("aa2", "x1"), ("ab1", "x12"), ("b%1", "y")):
        run = Session(store, session_id=session_id, run_id=run_id)
        await run.start(user(f"u-{run_id}"), started_at=len(run_id) + int(run_id[-1]))

    async def match(prefix: str) -> set[str]:
        return {run.run_id for run in await store.match_ids(prefix)}

    assert await match("x") == {"aa2", "ab1"}
    assert await match("x1") == {"aa2"}
    assert await match("aa1") == {"aa1"}
    assert await match("aa") == {"aa2"}
    assert await match("%") == set()
    assert await match("b%") == {"b%1"}
    assert await match("nope") == set()


async def test_usage_is_that_of_the_turns_on_the_path(store: Store, session: Session):
    """USE-01: aborted attempts and abandoned branches do not count."""
    await session.start()
    await session.begin("a1", "u1")
    await session.commit(assistant("a1", "u1", usage=TurnUsage(input=1, output=2)))
    await session.begin("lost", "a1")
    await session.commit(assistant("lost", "a1", usage=TurnUsage(input=50)))
    await session.begin("a2", "a1", user("u2"))
    await store.fail_turn(
        session_id="s1",
        run_id="r1",
        turn_id="a2",
        attempt=1,
        head="u2",
        now=1,
        partial=(TextBlock(text="par"),),
        receipt={},
    )
    await session.begin("a2", "u2", attempt=2)
    await session.commit(assistant("a2", "u2", usage=TurnUsage(input=3, cost=0.25)))

    assert await store.usage_of_run("r1") == (
        TurnUsage(input=1, output=2),
        TurnUsage(input=3, cost=0.25),
    )
    assert await store.usage_of_run("nope") == ()


async def test_a_missing_manifest_says_where_to_look(store: Store):
    with pytest.raises(StoreError, match="Manifest 'm9' is not in the store"):
        await store.manifest("m9")


async def test_equal_bytes_are_one_blob(store: Store):
    body = bytes(range(256)) * 10
    first, second = await store.put_blob(body), await store.put_blob(body)

    assert first == second
    assert await store.blob(first) == body
    assert await store.blob("0" * 64) is None
