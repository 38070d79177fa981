"""Decisions in tools and hooks of a run."""

import asyncio
import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest

from activities.decide_inline import decide_inline
from activities.decision_ids import DecisionIds
from activities.hook_bus import HookBus
from tests.support.decisions import REQUEST, Hanging, Place, by_kind, failure, place, played
from tests.support.inline_runs import bench, calls, says
from zidane_core import (
    Agent,
    DecisionError,
    DecisionFailure,
    DecisionOptions,
    DecisionSuccess,
    ToolContext,
    ToolError,
    tool,
)
from zidane_core.decisions import CancelFlag, Decide, NoDecisions
from zidane_core.errors import InvalidRequestError
from zidane_core.hooks import (
    HOOKS,
    DecisionEnd,
    Handler,
    HookContext,
    SessionEvent,
    ToolAfter,
    ToolHook,
)

__all__ = ["place"]

# -- in tools -------------------------------------------------------------------------------


@tool
async def awaits(ctx: ToolContext) -> str:
    """Decide in an async body."""
    return said(await ctx.decide(REQUEST))


@tool
def waits(ctx: ToolContext) -> str:
    """Decide in a plain body."""
    return said(ctx.decide.wait(REQUEST))


@tool
def runs_a_loop(ctx: ToolContext) -> str:
    """Decide in a loop of the thread's own."""

    async def main() -> str:
        return said(await ctx.decide(REQUEST))

    return asyncio.run(main())


@tool
async def waits_in_a_loop(ctx: ToolContext) -> str:
    """Use the wrong form."""
    try:
        ctx.decide.wait(REQUEST)
    except InvalidRequestError as error:
        raise ToolError(error.message) from error
    return "not reached"


def said(outcome: DecisionSuccess | DecisionFailure) -> str:
    return f"{outcome.ok} {outcome.decision_id}"


async def test_async_and_plain_bodies_decide_alike_bound_to_run_and_call(tmp_path: Path):
    """DEC-01, DEC-11."""
    seen: list[DecisionEnd] = []

    async def record(end: DecisionEnd) -> None:
        seen.append(end)

    tools = [awaits, waits, runs_a_loop, waits_in_a_loop]
    wanted: list[tuple[str, dict[str, Any]]] = [(each.name, {}) for each in tools]
    turns: list[Any] = [by_kind(calls(*wanted)), by_kind(says("done"))]
    async with bench(
        tmp_path,
        turns,
        tools=tools,
        hooks={"decision:end": record},
        decisions=DecisionOptions(model="played:m"),
    ) as b:
        result = await b.run()
        turns_stored = await b.store.path(result.session_id, result.head)
    results = [block.output for turn in turns_stored for block in turn.tool_results]
    expected = [f"True {DecisionIds(result.run_id, 'call', f'a{n}')()}" for n in range(3)]
    assert results[:3] == expected
    assert "await decide(...)" in str(results[3])
    assert {end.run_id for end in seen} == {result.run_id}
    assert sorted(end.decision_id for end in seen) == sorted(o.split()[1] for o in expected)


# -- in hooks -------------------------------------------------------------------------------


async def test_every_event_but_a_decisions_own_gives_its_handlers_decide(tmp_path: Path):
    """HOOK-02, HOOK-57."""
    outcomes: dict[str, list[DecisionSuccess | DecisionFailure]] = {}
    own: list[Any] = []

    def deciding(name: str) -> Handler:
        async def handle(payload: Any) -> None:
            if isinstance(payload, HookContext):
                assert payload.decide.available
                outcomes.setdefault(name, []).append(await payload.decide(REQUEST))
            else:
                own.append(payload)
                assert not hasattr(payload, "decide")

        return handle

    turns: list[Any] = [by_kind(calls(("awaits", {}))), by_kind(says("done"))]
    async with bench(
        tmp_path,
        turns,
        tools=[awaits],
        hooks={name: deciding(name) for name in HOOKS},
        decisions=DecisionOptions(model="played:m"),
    ) as b:
        result = await b.run()
    assert {"agent:start", "turn:after", "tool:gate", "stream:text", "agent:done"} < set(outcomes)
    made = [outcome for each in outcomes.values() for outcome in each]
    assert all(outcome.ok for outcome in made)
    ids = [outcome.decision_id for outcome in made]
    assert len(set(ids)) == len(ids)
    # One more was made by the tool; each has a start and an end, and neither made another.
    assert len(own) == 2 * (len(made) + 1)
    assert {payload.run_id for payload in own} == {result.run_id}


async def test_a_plain_handler_decides_from_its_thread(tmp_path: Path):
    """HOOK-02."""
    outcomes: list[DecisionSuccess | DecisionFailure] = []

    def handle(payload: HookContext) -> None:
        outcomes.append(payload.decide.wait(REQUEST))

    turns: list[Any] = [by_kind(says("done"))]
    async with bench(
        tmp_path,
        turns,
        hooks={"agent:start": handle},
        decisions=DecisionOptions(model="played:m"),
    ) as b:
        await b.run()
    assert [outcome.ok for outcome in outcomes] == [True]


async def test_a_plain_handler_that_takes_too_long_has_its_decision_aborted(place: Place):
    """HOOK-02: what stops the handler stops its decision."""
    hanging, done = Hanging(), threading.Event()
    outcomes: list[DecisionFailure] = []

    def handle(payload: HookContext) -> None:
        outcomes.append(failure(payload.decide.wait(REQUEST)))
        done.set()

    model = played(hanging)
    deps = place.deps(model)

    def decider_of(bus: HookBus, event: str, context: HookContext, stop: CancelFlag) -> Decide:
        return place.decider(model, deps=deps, is_stopped=stop.is_set)

    bus = HookBus({"session:start": (handle,)}, timeout_ms=0, decider=decider_of)
    payload = SessionEvent(run_id="r", session_id="s")
    firing = asyncio.create_task(bus.fire("session:start", payload))
    await hanging.asked.wait()
    firing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await firing
    await asyncio.to_thread(done.wait, 30)
    assert [outcome.reason for outcome in outcomes] == ["aborted"]


async def test_decide_is_no_part_of_the_payload_as_data(place: Place):
    """HOOK-02."""
    fields: dict[str, Any] = {
        "run_id": "r",
        "session_id": "s",
        "call_id": "c",
        "turn_id": "t",
        "name": "n",
        "display_name": "n",
        "input": {},
    }
    bare, given = ToolHook(**fields), ToolHook(**fields)
    given.attach_decide(place.decider(played()))
    assert given.decide.available
    assert not bare.decide.available
    assert given == bare
    assert repr(given) == repr(bare)
    assert dataclasses.asdict(given) == dataclasses.asdict(bare)
    assert not dataclasses.replace(given).decide.available
    assert "decide" not in {each.name for each in dataclasses.fields(ToolAfter)}
    assert failure(await bare.decide(REQUEST)).reason == "unavailable"


async def test_a_decision_can_be_made_without_temporal_or_a_worker():
    """DEC-01."""
    agent = Agent("a", decisions=DecisionOptions(model="played:m"))
    outcome = await decide_inline(agent, REQUEST, providers={"played": played()})
    assert outcome.ok
    with pytest.raises(DecisionError, match="No model for decisions"):
        await decide_inline(None, REQUEST, throw=True)


def test_a_payload_is_made_and_compared_without_decide():
    """HOOK-03: whoever fires an event builds the plain shape; only handlers see more."""
    made, same = (SessionEvent(run_id="r", session_id="s") for _ in range(2))
    made.attach_decide(NoDecisions())
    assert made == same
    assert dataclasses.asdict(made) == dataclasses.asdict(same)
    assert all("decide" not in dataclasses.asdict(payload) for payload in (made, same))
