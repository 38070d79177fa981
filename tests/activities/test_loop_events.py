"""Events born in the loop reach hooks and watchers; the boundary's order; state and clock."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from activities.inline import InlineRuntime, SystemClock
from tests.support.clocks import CountingClock
from tests.support.inline_runs import Bench, bench, calls, says
from zidane_core import ToolContext, tool
from zidane_core.clock import uuid4_of
from zidane_core.errors import AgentBudgetExceededError, ProviderError, ProviderFailure
from zidane_core.hooks import LoopReport


@tool
async def note(ctx: ToolContext, key: str, value: str) -> str:
    """Keep a value; say what was kept before."""
    before = ctx.state.get(key, "nothing")
    ctx.state.set(key, value)
    return str(before)


class Held:
    """A tool that waits in the middle until it is let go."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

        @tool
        async def hold() -> str:
            """Wait."""
            self.reached.set()
            await self.go.wait()
            return "held"

        self.tool = hold


async def finish(run: InlineRuntime, held: Held, *sent: tuple[Any, Any]) -> Any:
    """Run to the end, sending messages while the tool waits."""
    ending = asyncio.create_task(run.run())
    await held.reached.wait()
    for name, payload in sent:
        run.send(name, payload)
    held.go.set()
    return await ending


def event_names(events: Any) -> list[str]:
    return [event.name for event in events]


async def events_of(b: Bench, session_id: str) -> list[str]:
    return event_names(await b.store.events_after(session_id, 0))


async def test_an_abort_is_told_to_hooks_and_watchers_and_keeps_all_turns(tmp_path: Path) -> None:
    """CTL-09, HOOK-12, RUN-08, RUN-24."""
    told: list[LoopReport] = []
    held = Held()
    async with bench(
        tmp_path, [calls(("hold", {}))], tools=[held.tool], hooks={"agent:abort": told.append}
    ) as b:
        run = b.runtime()
        result = await finish(run, held, ("abort", "enough"))
        path = await b.store.path(run.session_id, result.head)
        events = await events_of(b, run.session_id)
    assert (result.status, result.error) == ("aborted", None)
    assert [report.fields for report in told] == [{"reason": "enough"}]
    assert [turn.role for turn in path] == ["user", "assistant", "user"]
    assert path[2].tool_results[0].is_error
    assert events.count("agent:abort") == 1
    assert events[-1] == "run:done"


async def test_a_retry_and_a_fallback_are_told_with_their_reasons(tmp_path: Path) -> None:
    """HOOK-29, HOOK-31, PROV-10."""
    told: list[LoopReport] = []
    failing = [True, True]

    async def play(request: Any, sink: Any) -> Any:
        if request.model == "a" and failing.pop():
            sink.thinking("abc")
            raise ProviderError(
                ProviderFailure(
                    kind="overloaded", message="busy", retryable=True, discarded_thinking=3
                )
            )
        return says(f"from {request.model}")

    hooks = {"stream:retry": told.append, "model:fallback": told.append}
    behavior = {"retry": {"max_attempts": 2, "initial_delay_ms": 0}}
    async with bench(tmp_path, [play], hooks=hooks) as b:
        result = await b.run(model=("played:a", "played:b"), behavior=behavior)
    assert result.text == "from b"
    retry, fallback = told
    assert (retry.name, retry.fields["attempt"], retry.fields["discarded_thinking"]) == (
        "stream:retry",
        1,
        3,
    )
    assert (fallback.fields["from"], fallback.fields["to"]) == ("played:a", "played:b")


async def test_a_delivered_message_gives_its_senders_id_back_and_carries_its_notes(
    tmp_path: Path,
) -> None:
    """CTL-03, CTL-04, CTL-05, CTL-12, HOOK-45."""
    told: list[LoopReport] = []
    held = Held()
    turns = [calls(("hold", {})), says("ok")]
    async with bench(tmp_path, turns, tools=[held.tool], hooks={"steer:inject": told.append}) as b:
        message = {"prompt": "look left", "id": "m1", "system_notes": ["be quick"]}
        await finish(b.runtime(), held, ("steer", message), ("steer", message))
    assert [report.fields for report in told] == [{"id": "m1"}]
    sent = b.model.requests[1].messages[-1].content
    assert [(block.type, getattr(block, "text", "")) for block in sent] == [
        ("text", "look left"),
        ("text", "be quick"),
    ]


async def test_at_one_boundary_an_end_comes_first_then_budgets_then_messages_then_pause(
    tmp_path: Path,
) -> None:
    """LOOP-16, BUD-04, BUD-06, K-STEER-01: nothing that was accepted is lost."""
    turns = [calls(("hold", {}), input=100), says("ok")]
    both: list[tuple[Any, Any]] = [("steer", "left"), ("pause", {"mode": "return"})]

    held = Held()
    async with bench(tmp_path, turns, tools=[held.tool]) as b:
        result = await finish(b.runtime(), held, *both)
        path = await b.store.path(result.session_id, result.head)
    assert result.status == "paused"
    assert [turn.text for turn in path][-1] == "left"
    assert result.unconsumed == ()

    held = Held()
    async with bench(tmp_path, turns, tools=[held.tool]) as b:
        run = b.runtime(behavior={"max_total_tokens": 50})
        with pytest.raises(AgentBudgetExceededError) as raised:
            await finish(run, held, *both)
    over = raised.value.details["result"]
    assert isinstance(over, dict)
    assert over["status"] == "aborted"
    assert over["unconsumed"] == [{"queue": "steer", "prompt": "left", "id": None}]

    held = Held()
    async with bench(tmp_path, turns, tools=[held.tool]) as b:
        run = b.runtime(behavior={"max_total_tokens": 50})
        result = await finish(run, held, *both, ("abort", None))
    assert (result.status, result.error) == ("aborted", None)


async def test_an_event_that_nobody_handles_costs_no_activity_and_no_payload(
    tmp_path: Path,
) -> None:
    """HOOK-07."""
    turns = [calls(("note", {"key": "k", "value": "v"})), says("ok")]
    async with bench(tmp_path, turns, tools=[note]) as b:
        bare = await b.run(session_id="bare")
        bare_events = await events_of(b, "bare")
    seen: list[Any] = []
    async with bench(tmp_path, turns, tools=[note], hooks={"tool:after": seen.append}) as b:
        await b.run(session_id="handled")
        handled_events = await events_of(b, "handled")
    assert bare.status == "completed"
    assert bare_events == handled_events
    assert len(seen) == 1


async def test_tool_state_lives_with_the_session_and_no_other_sees_it(tmp_path: Path) -> None:
    """STATE-11, STATE-12, STATE-13, G-30."""
    turns = [calls(("note", {"key": "k", "value": "v"})), says("ok")]

    async def kept(b: Bench, session_id: str) -> str:
        result = await b.run(session_id=session_id)
        path = await b.store.path(session_id, result.head)
        return str([turn for turn in path if turn.tool_results][-1].tool_results[0].output)

    async with bench(tmp_path, turns, tools=[note]) as b:
        first = await kept(b, "one")
        b.model.turns = [*turns, *turns]
        second = await kept(b, "one")
        b.model.turns = turns
        stranger = await kept(b, "two")
        committed = await b.store.tool_state("one")
    assert (first, second, stranger) == ("nothing", "v", "nothing")
    assert committed == {"k": "v"}


async def test_ids_and_times_of_a_session_come_from_the_runs_clock(tmp_path: Path) -> None:
    """RUN-10, CLK-01, CLK-03, CLK-04, CLK-06, G-18, G-19."""
    turns = [calls(("note", {"key": "k", "value": "v"})), says("ok")]
    seen: list[Any] = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        async with bench(folder, turns, tools=[note]) as b:
            result = await b.runtime(clock=CountingClock(now=5_000), session_id="s").run()
            path = await b.store.path("s", result.head)
        seen.append([(t.id, t.parent_id, t.created_at, t.run_id) for t in path])
    assert seen[0] == seen[1]
    assert {created for _, _, created, _ in seen[0]} == {5_000}


def test_the_default_clock_is_the_wall_clock_with_version_4_ids() -> None:
    """CLK-02."""
    clock = SystemClock()
    ids = {clock.random_uuid() for _ in range(100)}
    assert len(ids) == 100
    assert all(text[14] == "4" and text[19] in "89ab" for text in ids)
    assert clock.now() > 1_700_000_000_000
    assert 0 <= clock.random() < 1


@pytest.mark.parametrize("bits", [0, 1, (1 << 128) - 1, 1 << 127])
def test_random_bits_become_a_version_4_uuid(bits: int) -> None:
    """CLK-01."""
    text = uuid4_of(bits)
    assert [len(part) for part in text.split("-")] == [8, 4, 4, 4, 12]
    assert text[14] == "4"
    assert text[19] in "89ab"
