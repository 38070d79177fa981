"""A refused history, a paused server tool, thinking budgets: run level, with a played provider."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from activities.providers.base import ModelRequest, ModelTurn
from tests.support.inline_runs import Bench, Play, bench, calls, says, sent_results
from zidane_core import tool
from zidane_core.content import (
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    tool_result_to_text,
)
from zidane_core.errors import (
    AgentContextExceededError,
    AgentError,
    AgentPauseExhaustedError,
    AgentProviderError,
    InvalidRequestError,
    ProviderError,
    ProviderFailure,
)
from zidane_core.hooks import InputTransformations
from zidane_core.usage import TurnUsage
from zidane_core.values import Json


@tool
async def dump() -> str:
    """Give a long text."""
    return "x" * 20_000


def thinks(text: str) -> ModelTurn:
    signed = ThinkingBlock(text="hm", signature="s", signature_producer="played")
    return ModelTurn((signed, TextBlock(text=text)), "stop")


def refuses(
    failure: ProviderFailure, *, while_: Callable[[ModelRequest], bool], then: ModelTurn
) -> Play:
    """A turn that fails for as long as `while_(request)` holds."""

    async def play(request: ModelRequest, sink: Any) -> ModelTurn:
        if while_(request):
            raise ProviderError(failure)
        return then

    return play


def chars(request: ModelRequest) -> int:
    texts = [tool_result_to_text(result.output) for result in sent_results(request)]
    return sum(map(len, texts))


def has_thinking(request: ModelRequest) -> bool:
    blocks = [block for message in request.messages for block in message.content]
    return any(isinstance(block, ThinkingBlock) for block in blocks)


BAD_SIGNATURE = ProviderFailure(kind="invalid", message="Invalid signature.", repair="thinking")
TOO_LONG = ProviderFailure(kind="context_exceeded", message="Too long.")


async def event_names(b: Bench, session_id: str) -> list[str]:
    return [event.name for event in await b.store.events_after(session_id, 0)]


async def conversation(b: Bench, turns: int) -> str:
    """Run that many prompts on one session; return its id."""
    session_id = ""
    for number in range(turns):
        request: dict[str, Any] = {"session_id": session_id} if session_id else {}
        session_id = (await b.run(f"prompt {number}", **request)).session_id
    return session_id


async def test_one_repair_mends_a_refused_history_and_is_kept(tmp_path: Path) -> None:
    """K-ANTHROPIC-09, PROV-12."""
    turns = [
        thinks("one"),
        thinks("two"),
        refuses(BAD_SIGNATURE, while_=has_thinking, then=thinks("three")),
        says("four"),
    ]
    async with bench(tmp_path, turns) as b:
        session_id = await conversation(b, 4)
        events = await event_names(b, session_id)
    assert [has_thinking(request) for request in b.model.requests] == [
        False,
        True,
        True,
        False,
        # Only what the third turn itself thought; the first two stay left out.
        True,
    ]
    last = b.model.requests[-1]
    assert sum(isinstance(x, ThinkingBlock) for m in last.messages for x in m.content) == 1
    assert events.count("history:repair") == 1


async def test_a_second_refusal_ends_the_turn_with_a_typed_error(tmp_path: Path) -> None:
    """K-ANTHROPIC-09: no loop."""
    always = refuses(BAD_SIGNATURE, while_=lambda _: True, then=says("never"))
    async with bench(tmp_path, [thinks("one"), always]) as b:
        first = await b.run()
        with pytest.raises(AgentProviderError, match="Invalid signature"):
            await b.run(session_id=first.session_id)
    assert len(b.model.requests) == 3


async def test_a_context_that_is_too_long_is_shortened_and_the_turn_made_again(
    tmp_path: Path,
) -> None:
    """LOOP-14, LOOP-08: whatever the behavior says, and the task itself stays."""
    fits = refuses(TOO_LONG, while_=lambda r: chars(r) > 30_000, then=says("done"))
    async with bench(tmp_path, [calls(("dump", {}))] * 4 + [fits], tools=[dump]) as b:
        result = await b.run("the task")
        events = await event_names(b, result.session_id)
        turns = await b.store.path(result.session_id, result.head)
    assert (result.status, result.text) == ("completed", "done")
    sent = b.model.requests[-1]
    assert sent.messages[0].content == (TextBlock(text="the task"),)
    assert len(tool_result_to_text(sent_results(sent)[-1].output)) == 20_000
    assert 1 <= events.count("context:compacted") <= 3
    assert sum(len(str(r.output)) for t in turns for r in t.tool_results) == 80_000
    assert turns[-1].repairs


async def test_the_next_run_of_the_session_starts_from_the_shortened_context(
    tmp_path: Path,
) -> None:
    """LOOP-14."""
    fits = refuses(TOO_LONG, while_=lambda r: chars(r) > 30_000, then=says("done"))
    async with bench(tmp_path, [calls(("dump", {}))] * 3 + [fits, says("bye")], tools=[dump]) as b:
        first = await b.run()
        before = len(b.model.requests)
        await b.run("more", session_id=first.session_id)
    assert len(b.model.requests) == before + 1
    assert chars(b.model.requests[-1]) < 30_000


async def test_a_context_that_never_fits_is_a_typed_error(tmp_path: Path) -> None:
    """LOOP-14, ERR-06."""
    never = refuses(TOO_LONG, while_=lambda _: True, then=says("never"))
    async with bench(tmp_path, [calls(("dump", {})), never], tools=[dump]) as b:
        with pytest.raises(AgentContextExceededError):
            await b.run()
    assert len(b.model.requests) == 1 + 4


def searching(*, is_done: bool, text: str = "") -> ModelTurn:
    use = ServerToolUseBlock(producer="played", raw={"type": "server_tool_use", "id": "s1"})
    raw: Json = {"type": "web_search_tool_result", "tool_use_id": "s1"}
    found = ServerToolResultBlock(producer="played", raw=raw)
    blocks = (found, TextBlock(text=text)) if is_done else (TextBlock(text="Let me see."), use)
    return ModelTurn(blocks, "stop" if is_done else "pause")


async def test_a_turn_paused_in_a_server_tool_goes_back_as_it_is(tmp_path: Path) -> None:
    """K-ANTHROPIC-03, LOOP-06."""
    turns = [searching(is_done=False), searching(is_done=True, text="Found it.")]
    async with bench(tmp_path, turns) as b:
        result = await b.run()
    first, second = b.model.requests
    assert second.messages[: len(first.messages)] == first.messages
    (paused,) = second.messages[len(first.messages) :]
    assert (paused.role, paused.content) == ("assistant", turns[0].blocks)
    assert result.text == "Found it."


async def test_pauses_in_a_server_tool_are_bounded_and_count_in_the_budget(tmp_path: Path) -> None:
    """K-ANTHROPIC-03, variation."""
    async with bench(tmp_path, [searching(is_done=False)]) as b:
        with pytest.raises(AgentPauseExhaustedError, match="33 times in a row"):
            await b.run()
    costly = searching(is_done=False)
    costly = ModelTurn(costly.blocks, "pause", TurnUsage(input=100, cost=0.1))
    async with bench(tmp_path, [costly]) as b:
        with pytest.raises(AgentError) as caught:
            await b.run(behavior={"max_cost_usd": 0.35})
    assert caught.value.code == "AgentBudgetExceededError"


async def test_a_failed_attempt_in_which_a_server_tool_ran_is_not_repeated(tmp_path: Path) -> None:
    """PROV-06: it was charged, and may have acted."""

    async def cut(request: ModelRequest, sink: Any) -> ModelTurn:
        sink.server_tool("web_search")
        failure = ProviderFailure(kind="network", message="Cut.", retryable=True)
        raise ProviderError(failure.model_copy(update={"server_tool_ran": True}))

    async with bench(tmp_path, [cut]) as b:
        with pytest.raises(AgentProviderError):
            await b.run(on_provider_failure="fail")
    assert len(b.model.requests) == 1


async def test_text_cut_by_the_output_limit_is_kept_and_the_session_goes_on(tmp_path: Path) -> None:
    """K-ANTHROPIC-05."""
    cut = ModelTurn((TextBlock(text="The answer is long and"),), "length")
    async with bench(tmp_path, [cut, says("it ends here.")]) as b:
        first = await b.run()
        second = await b.run("go on", session_id=first.session_id)
        stored = await b.store.path(first.session_id, first.head)
    assert (first.status, first.text) == ("completed", "The answer is long and")
    assert first.full()["finish_reason"] == "length"
    assert stored[-1].usage is not None
    assert stored[-1].usage.finish_reason == "length"
    assert "finish_reason" not in second.full()
    said = [m.content for m in b.model.requests[1].messages]
    assert said[1:] == [cut.blocks, (TextBlock(text="go on"),)]


async def test_changed_input_reaches_the_hook_and_the_usage(tmp_path: Path) -> None:
    """HOOK-30, PROV-12."""
    dropped: Json = {"type": "thinking_dropped", "reason": "prefix_binding_mismatch"}
    turn = ModelTurn(
        (TextBlock(text="so"),),
        "stop",
        TurnUsage(thinking_dropped=1),
        input_transformations=(dropped,),
    )
    seen: list[InputTransformations] = []
    hooks = {"provider:input-transformations": seen.append}
    async with bench(tmp_path, [turn], hooks=hooks) as b:
        result = await b.run()
    (payload,) = seen
    assert payload.transformations == (dropped,)
    assert result.stats.turn_usage is not None
    assert result.stats.turn_usage[0].thinking_dropped == 1


# -- thinking ----------------------------------------------------------------------------------


async def budgets(tmp_path: Path, behavior: dict[str, Any], **agent: Any) -> Sequence[int | None]:
    turns = [calls(("dump", {}))] * 8 + [says("done")]
    async with bench(tmp_path, turns, tools=[dump], **agent) as b:
        await b.run(behavior=behavior, thinking="high")
    return [request.thinking_budget for request in b.model.requests]


async def test_the_budget_of_each_turn_follows_the_geometric_schedule(tmp_path: Path) -> None:
    """THNK-06: turns count from the start of the run."""
    decay = {"after_turn": 5, "factor": 0.5, "floor": 1024}
    made = await budgets(tmp_path, {"thinking_budget": 8192, "thinking_decay": decay})
    assert made == [8192] * 5 + [4096, 2048, 1024, 1024]


async def test_a_named_callable_sets_the_budget_of_each_turn(tmp_path: Path) -> None:
    """THNK-07."""

    def taper(run_turn: int, base: int) -> float:
        return base / run_turn

    behavior = {"thinking_budget": 1200, "thinking_decay": "taper"}
    made = await budgets(tmp_path, behavior, callables={"taper": taper})
    assert made[:4] == [1200, 600, 400, 300]


async def test_decay_without_a_budget_does_nothing(tmp_path: Path) -> None:
    """THNK-05."""
    made = await budgets(tmp_path, {"thinking_decay": {"after_turn": 1, "floor": 10}})
    assert set(made) == {None}


async def test_a_callable_that_the_agent_lacks_is_refused_at_the_start(tmp_path: Path) -> None:
    """THNK-07."""
    with pytest.raises(InvalidRequestError, match="'taper'"):
        await budgets(tmp_path, {"thinking_budget": 10, "thinking_decay": "taper"})


async def test_a_model_that_reasons_at_length_is_nudged_with_the_next_turn(tmp_path: Path) -> None:
    """NUDGE-10, THNK-10: the turn's own calls finish."""
    long = calls(("dump", {}), thinking=500)
    behavior = {"thinking_overrun_policy": {"threshold_tokens": 400, "message": "Get on."}}
    async with bench(tmp_path, [long, says("done")], tools=[dump]) as b:
        result = await b.run(behavior=behavior)
        turns = await b.store.path(result.session_id, result.head)
    last = b.model.requests[1].messages[-1].content
    assert [type(block).__name__ for block in last][-1] == "TextBlock"
    assert [(t.injected, t.text) for t in turns if t.injected] == [("thinking-overrun", "Get on.")]


@pytest.mark.parametrize("policy", ["off", None, {"threshold_tokens": 500}])
async def test_no_nudge_under_the_threshold_or_when_off(tmp_path: Path, policy: Any) -> None:
    """NUDGE-10."""
    behavior = {"thinking_overrun_policy": policy}
    async with bench(tmp_path, [calls(("dump", {}), thinking=500), says("x")], tools=[dump]) as b:
        result = await b.run(behavior=behavior)
        turns = await b.store.path(result.session_id, result.head)
    assert [turn.injected for turn in turns if turn.injected] == []


async def test_the_short_form_of_the_policy_nudges_past_its_default(tmp_path: Path) -> None:
    """NUDGE-10."""
    behavior = {"thinking_overrun_policy": "steer-next-turn"}
    turns = [calls(("dump", {}), thinking=20_000), says("x")]
    async with bench(tmp_path, turns, tools=[dump]) as b:
        result = await b.run(behavior=behavior)
        path = await b.store.path(result.session_id, result.head)
    assert [turn.injected for turn in path if turn.injected] == ["thinking-overrun"]
