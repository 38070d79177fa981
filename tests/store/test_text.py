"""Characters that databases or encoders refuse."""

from activities.store import Store
from tests.store.builders import Session, assistant, call_block, event, user
from zidane_core.content import TextBlock, clean_text
from zidane_core.session import RunRecord
from zidane_core.tool_state import ToolStateOp

NUL = "a\x00b"
HALF = "half \ud83d pair \udc00"


async def test_nul_characters_round_trip(session: Session, store: Store, other: Store):
    """K-STORE-02: they are text of a tool result like any other."""
    await session.start(user("u1", NUL, display=NUL))
    await session.begin("a1", "u1")
    await session.commit(assistant("a1", "u1", call_block("c1")), receipt={"preview": NUL})
    await session.begin_call("a1", "c1")
    await session.finish_call("a1", "c1", NUL, ToolStateOp(key="k", value={NUL: NUL}))
    await store.append_events([event("text", "a2", delta=NUL)])

    assert [turn.text for turn in await other.path("s1", "u1")] == [NUL]
    first = await other.turn("u1")
    assert first is not None
    assert first.display == NUL
    assert await other.tool_state("s1") == {"k": {NUL: NUL}}
    assert (await other.events_after("s1", 0))[-1].fields == {"delta": NUL}
    assert (await Session(other).begin_call("a1", "c1")).receipt == {"output": NUL}


async def test_a_nul_in_a_preview_is_shown_as_a_replacement(store: Store):
    record = RunRecord(run_id="r1", session_id="s1", agent="basic", prompt=NUL, label=HALF)
    await store.start_run(record, manifest={"x": NUL}, manifest_hash="m1", turns=[user("u1")])
    await store.set_phase("r1", phase="parked", reason=NUL)

    run = await store.run("r1")
    assert run is not None
    assert (run.prompt, run.label, run.reason) == ("a\ufffdb", clean_text(HALF), "a\ufffdb")
    assert await store.manifest("m1") == {"x": NUL}


async def test_text_cleaned_at_the_edge_round_trips(session: Session, other: Store):
    """K-PAIRING-02."""
    text = clean_text(HALF)
    await session.start(user("u1", text))

    assert [turn.text for turn in await other.path("s1", "u1")] == [text]


async def test_broken_pairs_that_no_edge_cleaned_do_not_stop_a_run(
    session: Session, store: Store, other: Store
):
    """K-PAIRING-02: the writer sees the same text as every reader."""
    await session.start(user("u1", HALF))
    await session.begin("a1", "u1")
    turn = assistant("a1", "u1", TextBlock(text=HALF), call_block("c1"))
    await session.commit(turn, event("turn:done", "a1", text=HALF), receipt={"text": HALF})
    await session.finish_call("a1", "c1", HALF, ToolStateOp(key="k", value=HALF))

    ours, theirs = await store.path("s1", "a1"), await other.path("s1", "a1")
    assert ours == theirs
    assert [turn.text for turn in ours] == [clean_text(HALF)] * 2
    assert await other.tool_state("s1") == {"k": clean_text(HALF)}
    assert (await other.events_after("s1", 0))[0].fields == {"text": clean_text(HALF)}
