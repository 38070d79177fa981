"""One model turn: watchdogs, what a failed attempt leaves behind, ids and texts at the edge."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from activities.providers.base import ModelTurn
from tests.support.inline_runs import bench, calls, says, sent_calls, sent_results
from zidane_core import tool
from zidane_core.content import TextBlock, ThinkingBlock, ToolCallBlock
from zidane_core.errors import (
    AgentProviderError,
    AgentToolPairingError,
    ProviderError,
    ProviderFailure,
)
from zidane_core.session import Turn


@tool(read_only=True)
async def echo(text: str) -> str:
    """Give the text back."""
    return text


async def silent(request: Any, sink: Any) -> ModelTurn:
    await asyncio.Event().wait()
    raise AssertionError("never")


async def one_word(request: Any, sink: Any) -> ModelTurn:
    sink.text("Hel")
    await asyncio.Event().wait()
    raise AssertionError("never")


async def chatters(request: Any, sink: Any) -> ModelTurn:
    while True:
        sink.text(".")
        await asyncio.sleep(0.002)


@pytest.mark.parametrize(
    ("play", "behavior", "words"),
    [
        (silent, {"provider_stream_start_timeout_ms": 30}, "sent nothing for 0.03 s"),
        (one_word, {"provider_stream_idle_timeout_ms": 30}, "went silent for 0.03 s"),
        (chatters, {"provider_stream_timeout_ms": 30}, "did not finish within 0.03 s"),
        (silent, {"max_wall_ms": 700}, "sent nothing for 0.7 s"),
    ],
    ids=["start", "idle", "total", "bounded by the run's time budget"],
)
async def test_a_watchdog_ends_a_stream_as_a_retryable_timeout(
    tmp_path: Path, play: Any, behavior: dict[str, Any], words: str
) -> None:
    """PROV-07, PROV-08, PROV-09, BUD-05."""
    behavior = {**behavior, "retry": {"max_attempts": 1}}
    async with bench(tmp_path, [play]) as b:
        with pytest.raises(AgentProviderError, match=words) as raised:
            await b.run(behavior=behavior, on_provider_failure="fail")
    assert raised.value.details["kind"] == "timeout"
    assert raised.value.details["retryable"] is True


async def test_the_idle_watchdog_waits_for_a_first_event(tmp_path: Path) -> None:
    """PROV-08: the gap counts after the first event only."""

    async def late(request: Any, sink: Any) -> ModelTurn:
        await asyncio.sleep(0.05)
        return says("late")

    async with bench(tmp_path, [late]) as b:
        result = await b.run(behavior={"provider_stream_idle_timeout_ms": 10})
    assert result.text == "late"


async def test_a_failed_attempt_is_made_again_and_stays_as_an_aborted_turn(tmp_path: Path) -> None:
    """CTL-11, PROV-03, K-ANTHROPIC-01: text that had streamed does not stand in the way."""
    failures = [ProviderFailure(kind="overloaded", message="busy", retryable=True)]

    async def flaky(request: Any, sink: Any) -> ModelTurn:
        if failures:
            sink.thinking("hm")
            sink.text("Hello wor")
            raise ProviderError(failures.pop())
        sink.text("Hello world.")
        return says("Hello world.")

    async with bench(tmp_path, [flaky]) as b:
        result = await b.run(behavior={"retry": {"initial_delay_ms": 0}})
        turns = await b.store.turns_of_run(result.run_id)
        events = await b.store.events_after(result.session_id, 0)
    assert result.text == "Hello world."
    assert [(turn.role, turn.aborted, turn.text) for turn in turns] == [
        ("user", False, "go"),
        ("assistant", True, "Hello wor"),
        ("assistant", False, "Hello world."),
    ]
    assert isinstance(turns[1].content[0], ThinkingBlock)
    assert len(b.model.requests) == 2
    again = b.model.requests[1].messages
    assert [message.role for message in again] == ["user"]
    assert [event.name for event in events if event.name in ("text", "thinking")] == []
    assert [event.name for event in events if event.name.startswith("turn:")] == [
        "turn:failed",
        "turn:done",
    ]


async def test_a_refused_request_is_not_made_again(tmp_path: Path) -> None:
    """PROV-05, K-ANTHROPIC-11."""

    async def invalid(request: Any, sink: Any) -> ModelTurn:
        raise ProviderError(ProviderFailure(kind="invalid", message="bad field"))

    async with bench(tmp_path, [invalid]) as b:
        with pytest.raises(AgentProviderError, match="bad field"):
            await b.run()
        assert len(b.model.requests) == 1


async def test_two_calls_with_one_id_or_none_get_ids_of_their_own(tmp_path: Path) -> None:
    """K-OPENAI-06: both run, and both results reach the model in order."""
    blocks = tuple(
        ToolCallBlock(id=call_id, name="echo", input={"text": text})
        for call_id, text in (("c", "AAA"), ("c", "BBB"), ("", "CCC"), ("", "DDD"))
    )
    turns = [ModelTurn(blocks, "tool-calls"), says("ok")]
    async with bench(tmp_path, turns, tools=[echo]) as b:
        await b.run()
    sent = [call.id for call in sent_calls(b.model.requests[1])]
    assert len(set(sent)) == 4
    assert all(sent)
    results = [(result.call_id, result.output) for result in sent_results(b.model.requests[1])]
    assert results == list(zip(sent, ["AAA", "BBB", "CCC", "DDD"], strict=True))


async def test_the_same_id_in_every_turn_names_another_call_each_time(tmp_path: Path) -> None:
    """K-OPENAI-05."""
    turns = [*(calls(("echo", {"text": str(n)})) for n in range(4)), says("ok")]
    async with bench(tmp_path, turns, tools=[echo]) as b:
        await b.run()
    ids = [call.id for call in sent_calls(b.model.requests[-1])]
    assert [r.output for r in sent_results(b.model.requests[-1])] == ["0", "1", "2", "3"]
    assert len(set(ids)) == 4
    earlier = [call.id for call in sent_calls(b.model.requests[2])]
    assert ids[: len(earlier)] == earlier


async def test_an_alias_is_what_the_model_sees_and_the_canonical_name_what_is_stored(
    tmp_path: Path,
) -> None:
    """TOOL-05, SESS-08."""
    turns = [calls(("say", {"text": "x"})), says("ok")]
    async with bench(tmp_path, turns, tools=[echo], tool_aliases={"echo": "say"}) as b:
        result = await b.run()
        path = await b.store.path(result.session_id, result.head)
    assert [spec.shown_name for spec in b.model.requests[0].tools] == ["say"]
    assert path[1].tool_calls[0].name == "echo"
    assert path[2].tool_results[0].output == "x"


async def test_half_a_surrogate_pair_from_a_model_is_mended_once(tmp_path: Path) -> None:
    """K-PAIRING-02."""
    broken = ToolCallBlock(id="c", name="echo", input={"text": "ok \ud83d end"})
    turns = [ModelTurn((TextBlock(text="a\udca9"), broken), "tool-calls"), says("ok")]
    async with bench(tmp_path, turns, tools=[echo]) as b:
        result = await b.run("hi \ud800")
        path = await b.store.path(result.session_id, result.head)
    assert [turn.text for turn in path] == ["hi \ufffd", "a\ufffd", "", "ok"]
    assert path[2].tool_results[0].output == "ok \ufffd end"


async def test_strict_pairing_fails_the_run_where_a_repair_would_be_needed(tmp_path: Path) -> None:
    """SESS-11, SESS-12, ERR-02."""
    async with bench(tmp_path, [says("ok")], tools=[echo]) as b:
        first = await b.run(session_id="s")
        open_call = Turn(
            id="t-open",
            parent_id=first.head,
            role="assistant",
            content=(ToolCallBlock(id="x", name="echo", input={"text": "?"}),),
            created_at=1,
            run_id=first.run_id,
        )
        record = await b.store.run(first.run_id)
        assert record is not None
        await b.store.finish_run(
            record.model_copy(update={"run_id": "r2"}), append=[open_call], head=first.head
        )
        lenient = await b.run("go on", session_id="s")
        with pytest.raises(AgentToolPairingError, match="missing_result"):
            await b.run("go on", session_id="s", behavior={"strict_tool_pairing": True})
    assert lenient.text == "ok"
    sent = b.model.requests[1].messages
    # Two answers in a row: a user's word stands between them, as services want it.
    assert [message.role for message in sent] == ["user", "assistant"] * 2 + ["user"]
    assert [block.type for block in sent[-1].content] == ["tool_result", "text"]
