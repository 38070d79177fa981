"""Hooks fire in activities: order, payloads, what may change, watchdog, cost."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.inline_runs import bench, calls, says, sent_results
from zidane_core import ToolContext, tool
from zidane_core.errors import AgentError, InvalidRequestError, OperationTimeoutError
from zidane_core.hooks import (
    HOOKS,
    ContextTransform,
    Handler,
    HookMap,
    StreamEvent,
    SystemPrompt,
    ToolAfter,
    ToolFailed,
    ToolGate,
    ToolTransform,
    TurnBefore,
    UsageReport,
)
from zidane_core.usage import TurnUsage


@tool(read_only=True)
async def look(ctx: ToolContext, what: str) -> str:
    """Look at something."""
    ctx.progress(f"looking at {what}")
    ctx.metadata["seen"] = what
    return f"saw {what}"


def recorder(log: list[str]) -> dict[str, Any]:
    def handler(name: str) -> Handler:
        def handle(payload: Any) -> None:
            log.append(name)

        return handle

    return {name: handler(name) for name in HOOKS}


async def test_a_run_with_a_tool_call_fires_its_events_in_this_order(tmp_path: Path) -> None:
    """LOOP-17, LIFE-01, and when each event fires.

    HOOK-10, HOOK-11, HOOK-13, HOOK-14, HOOK-15, HOOK-18, HOOK-19, HOOK-20, HOOK-21, HOOK-22,
    HOOK-23, HOOK-24, HOOK-25, HOOK-26, HOOK-28, HOOK-32, HOOK-33, HOOK-34, HOOK-35, HOOK-36.
    """
    log: list[str] = []
    turns = [calls(("look", {"what": "it"}), text="hm"), says("done")]
    async with bench(tmp_path, turns, tools=[look], hooks=recorder(log)) as b:
        await b.run()
    model_turn = [
        "context:transform",
        "system:transform",
        "turn:before",
        "stream:start",
        "stream:text",
        "stream:end",
        "usage",
        "turn:after",
    ]
    assert [name for name in log if name != "tool:progress"] == [
        "system:before",
        "session:start",
        "agent:start",
        *model_turn,
        "tool:gate",
        "tool:before",
        "tool:transform",
        "tool:after",
        "tool-results:after",
        *model_turn,
        "session:turns",
        "session:end",
        "agent:done",
    ]
    assert log.count("tool:progress") == 1


async def test_handlers_of_one_event_run_in_registration_order_agent_before_run(
    tmp_path: Path,
) -> None:
    """HOOK-01, RUN-07."""
    log: list[int] = []

    async def second(_: Any) -> None:
        log.append(2)

    def first(_: Any) -> None:
        log.append(1)

    def third(_: Any) -> None:
        log.append(3)

    hooks: HookMap = {"agent:done": [first, second]}
    callables = {"third": third}
    async with bench(tmp_path, [says("ok")], hooks=hooks, callables=callables) as b:
        await b.run(hooks={"agent:done": ["third"]})
        await b.run("again")
    assert log == [1, 2, 3, 1, 2]


@pytest.mark.parametrize(
    ("hooks", "words"),
    [
        ({"tool:befor": ["x"]}, "Did you mean 'tool:before'"),
        ({"tool:before": ["x"]}, "no callable"),
    ],
)
async def test_a_run_that_names_a_wrong_hook_or_callable_is_refused(
    tmp_path: Path, hooks: dict[str, list[str]], words: str
) -> None:
    """RUN-07, G-58."""
    async with bench(tmp_path, [says("ok")]) as b:
        with pytest.raises(InvalidRequestError, match=words):
            await b.run(hooks=hooks)
        assert b.model.requests == []


async def test_transforms_change_what_the_model_is_sent_and_nothing_that_is_stored(
    tmp_path: Path,
) -> None:
    """HOOK-18, HOOK-19, HOOK-20, HOOK-21, LOOP-15."""

    def base(payload: SystemPrompt) -> None:
        payload.system += " base"

    def per_turn(payload: SystemPrompt) -> None:
        payload.system += " turn"

    def only_last(payload: ContextTransform) -> None:
        payload.messages = payload.messages[-2:]

    def smaller(payload: TurnBefore) -> None:
        payload.max_tokens = 7

    hooks = {
        "system:before": base,
        "system:transform": per_turn,
        "context:transform": only_last,
        "turn:before": smaller,
    }
    turns = [calls(("look", {"what": "it"})), says("done")]
    async with bench(tmp_path, turns, tools=[look], hooks=hooks, system="S") as b:
        result = await b.run()
        path = await b.store.path(result.session_id, result.head)
    assert [request.system for request in b.model.requests] == ["S base turn", "S base turn"]
    # What the hook left begins with the assistant, so a user's line is put before it.
    assert [len(request.messages) for request in b.model.requests] == [1, 3]
    assert [request.max_tokens for request in b.model.requests] == [7, 7]
    assert [turn.role for turn in path] == ["user", "assistant", "user", "assistant"]


async def test_a_gate_blocks_a_call_and_the_body_does_not_run(tmp_path: Path) -> None:
    """HOOK-32, TOOL-06, TOOL-07."""
    log: list[str] = []

    def gate(payload: ToolGate) -> None:
        payload.block, payload.reason = True, "not today"

    def before(_: Any) -> None:
        log.append("before")

    hooks: HookMap = {"tool:gate": gate, "tool:before": before}
    turns = [calls(("look", {"what": "it"})), says("done")]
    async with bench(tmp_path, turns, tools=[look], hooks=hooks) as b:
        await b.run()
    (block,) = sent_results(b.model.requests[1])
    assert (block.output, block.is_error) == ("Blocked: not today", True)
    assert log == []


async def test_a_substitute_result_skips_the_body_and_passes_the_transforms(
    tmp_path: Path,
) -> None:
    """TOOL-06, HOOK-35, HOOK-36."""
    seen: list[tuple[str, int]] = []

    def gate(payload: ToolGate) -> None:
        payload.result = "known"

    def shout(payload: ToolTransform) -> None:
        payload.result = str(payload.result).upper()

    def after(payload: ToolAfter) -> None:
        seen.append((str(payload.result), payload.output_bytes))

    hooks = {"tool:gate": gate, "tool:transform": shout, "tool:after": after}
    turns = [calls(("look", {"what": "it"})), says("done")]
    async with bench(tmp_path, turns, tools=[look], hooks=hooks) as b:
        await b.run()
    assert sent_results(b.model.requests[1])[0].output == "KNOWN"
    assert seen == [("KNOWN", 5)]


async def test_errors_of_a_body_an_unknown_tool_and_bad_arguments_can_be_reworded(
    tmp_path: Path,
) -> None:
    """HOOK-37, HOOK-38, HOOK-39, TOOL-08, TOOL-14."""
    suggested: list[tuple[str, ...]] = []

    @tool
    async def broken(n: int) -> str:
        """Break."""
        raise RuntimeError("no")

    def reword(payload: ToolFailed) -> None:
        suggested.append(payload.suggestions)
        payload.result = f"[{payload.name}] {payload.error.split(':')[0]}"

    hooks = dict.fromkeys(("tool:error", "tool:unknown", "validation:reject"), reword)
    wanted: list[tuple[str, dict[str, Any]]] = [
        ("broken", {"n": 1}),
        ("brokn", {}),
        ("broken", {"n": "x"}),
    ]
    async with bench(tmp_path, [calls(*wanted), says("ok")], tools=[broken], hooks=hooks) as b:
        await b.run()
    results = sent_results(b.model.requests[1])
    assert [result.output for result in results] == [
        "[broken] RuntimeError",
        "[brokn] Unknown tool 'brokn'. Known",
        "[broken] Invalid arguments for 'broken'",
    ]
    assert all(result.is_error for result in results)
    assert suggested == [(), ("broken",), ()]


async def test_a_changed_usage_counts_for_budgets_and_the_stored_one_stays(tmp_path: Path) -> None:
    """HOOK-24, G-51, BUD-02."""

    def cheaper(payload: UsageReport) -> None:
        payload.usage = TurnUsage(input=1)

    turns = [calls(("look", {"what": "it"}), input=500), says("done", input=500)]
    async with bench(tmp_path, turns, tools=[look], hooks={"usage": cheaper}) as b:
        result = await b.run(behavior={"max_total_tokens": 10})
    assert result.status == "completed"
    assert result.stats.total_in == 1_000
    usage = result.stats.turn_usage
    assert usage is not None
    assert [turn.input for turn in usage] == [500, 500]


async def test_stream_hooks_get_each_piece_and_the_text_so_far(tmp_path: Path) -> None:
    """HOOK-26, HOOK-27."""
    seen: list[tuple[str, str]] = []

    async def play(request: Any, sink: Any):
        sink.thinking("hm")
        for piece in ("a", "b", "c"):
            sink.text(piece)
        return says("abc")

    def piece(payload: StreamEvent) -> None:
        seen.append((payload.delta, payload.text))

    hooks = {"stream:text": piece, "stream:thinking": piece}
    async with bench(tmp_path, [play], hooks=hooks) as b:
        await b.run()
    assert seen == [("hm", ""), ("a", "a"), ("b", "ab"), ("c", "abc")]


async def test_a_slow_transform_fails_the_run_closed_and_a_slow_observer_does_not(
    tmp_path: Path,
) -> None:
    """HOOK-04, HOOK-05, ERR-04."""

    async def forever(_: Any) -> None:
        await asyncio.Event().wait()

    behavior = {"hook_timeout_ms": 20}
    async with bench(tmp_path, [says("ok")], hooks={"turn:after": forever}) as b:
        assert (await b.run(behavior=behavior)).text == "ok"
    async with bench(tmp_path, [says("ok")], hooks={"context:transform": forever}) as b:
        with pytest.raises(OperationTimeoutError, match="context:transform"):
            await b.run(behavior=behavior)
        assert b.model.requests == []


async def test_a_raising_observer_is_logged_and_a_raising_transform_ends_the_run(
    tmp_path: Path,
) -> None:
    """HOOK-05."""

    def explode(_: Any) -> None:
        raise ValueError("bad hook")

    async with bench(tmp_path, [says("ok")], hooks={"turn:after": explode}) as b:
        assert (await b.run()).text == "ok"
    async with bench(tmp_path, [says("ok")], hooks={"system:transform": explode}) as b:
        with pytest.raises(AgentError, match="bad hook"):
            await b.run()


async def test_plain_and_async_callbacks_both_work_also_when_they_block_or_use_threads(
    tmp_path: Path,
) -> None:
    """K-TEMPORAL-04."""
    main = threading.get_ident()
    threads: list[bool] = []

    def plain(_: Any) -> None:
        threads.append(threading.get_ident() != main)

    async def threaded(_: Any) -> None:
        await asyncio.to_thread(plain, None)

    @tool
    def blocking(ctx: ToolContext) -> str:
        """Plain body."""
        threads.append(threading.get_ident() != main)
        return "plain"

    hooks = {"turn:before": [plain, threaded]}
    async with bench(
        tmp_path, [calls(("blocking", {})), says("ok")], tools=[blocking], hooks=hooks
    ) as b:
        await b.run()
    assert sent_results(b.model.requests[1])[0].output == "plain"
    assert threads == [True, True, True, True, True]


async def test_a_nested_call_goes_through_the_gates_and_is_recorded_on_the_outer_result(
    tmp_path: Path,
) -> None:
    """TOOL-11, HOOK-08."""
    seen: list[tuple[str, str | None, int | None]] = []

    @tool
    async def outer(ctx: ToolContext) -> str:
        """Call another tool."""
        return str(await ctx.call_tool("look", {"what": "deep"}, line=3))

    def gate(payload: ToolGate) -> None:
        seen.append((payload.name, payload.parent_tool_call_id, payload.script_line))

    turns = [calls(("outer", {})), says("ok")]
    async with bench(tmp_path, turns, tools=[outer, look], hooks={"tool:gate": gate}) as b:
        result = await b.run()
        path = await b.store.path(result.session_id, result.head)
    (answer,) = path[2].tool_results
    assert answer.output == "saw deep"
    (record,) = answer.calls
    assert (record["name"], record["output"], record["line"]) == ("look", "saw deep", 3)
    assert seen == [("outer", None, None), ("look", "a0", 3)]
    assert [call.name for call in path[1].tool_calls] == ["outer"]


async def test_metadata_is_stored_with_the_result(tmp_path: Path) -> None:
    """TOOL-10, TOOL-15, SESS-07."""
    async with bench(tmp_path, [calls(("look", {"what": "x"})), says("ok")], tools=[look]) as b:
        result = await b.run()
        path = await b.store.path(result.session_id, result.head)
    assert path[2].tool_results[0].metadata == {"seen": "x"}
