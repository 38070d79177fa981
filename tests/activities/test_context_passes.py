"""Passes over a request: what the model is sent in whole runs, and what stays stored."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from activities.providers.base import ModelRequest, ProviderCapabilities
from activities.toolbox import basic_tools
from tests.support.inline_runs import bench, calls, says, sent_calls, sent_results
from zidane_core import tool
from zidane_core.content import ImageBlock, TextBlock, tool_result_to_text
from zidane_core.errors import AgentError, InvalidRequestError
from zidane_core.session import Message

IMAGE = ImageBlock(media_type="image/png", data="QUFB")


@tool(read_only=True)
async def dump(n: int) -> str:
    """Give a long text."""
    return f"{n}:" + "x" * 1_000


@tool(read_only=True)
async def shot() -> Any:
    """Take a picture."""
    return (TextBlock(text="see"), IMAGE)


def texts(request: ModelRequest) -> list[str]:
    return [tool_result_to_text(result.output) for result in sent_results(request)]


def dumps(count: int) -> list[Any]:
    return [*[calls(("dump", {"n": n})) for n in range(count)], says("done")]


async def test_nothing_is_left_out_by_default(tmp_path: Path) -> None:
    """CMP-01, MED-01, FILE-07."""
    async with bench(tmp_path, dumps(6), tools=[dump]) as b:
        await b.run()
    assert [len(text) for text in texts(b.model.requests[-1])] == [1_002] * 6


async def test_tail_leaves_older_tool_output_out_of_requests_only(tmp_path: Path) -> None:
    """CMP-02, CMP-03, CMP-04, LOOP-15: what is stored stays."""
    behavior = {"compact_strategy": "tail", "compact_threshold": 3_000, "compact_keep_turns": 2}
    async with bench(tmp_path, dumps(8), tools=[dump]) as b:
        result = await b.run(behavior=behavior)
        turns = await b.store.path(result.session_id, result.head)
    sent = texts(b.model.requests[-1])
    assert len(sent[-1]) == 1_002
    assert len(sent[0]) < 200
    assert sum(map(len, sent)) < 4_500
    stored = [tool_result_to_text(r.output) for turn in turns for r in turn.tool_results]
    assert [len(text) for text in stored] == [1_002] * 8


async def test_an_authors_compactor_gets_the_messages_and_its_answer_is_sent(
    tmp_path: Path,
) -> None:
    """CMP-01: sync or async; a call that it tore from its result is mended."""

    async def last_two(messages: Sequence[Message]) -> Sequence[Message]:
        return [*messages[:1], *messages[-1:]] if len(messages) > 3 else messages

    callables = {"last_two": last_two}
    async with bench(tmp_path, dumps(3), tools=[dump], callables=callables) as b:
        await b.run("the task", behavior={"compact_strategy": "last_two"})
    last = b.model.requests[-1]
    assert last.messages[0].content == (TextBlock(text="the task"),)
    assert (sent_calls(last), sent_results(last)) == ([], [])


async def test_a_compactor_that_returns_no_messages_fails_the_run_typed(tmp_path: Path) -> None:
    """CMP-01."""
    async with bench(tmp_path, dumps(1), tools=[dump], callables={"bad": lambda _: "x"}) as b:  # pyright: ignore[reportUnknownLambdaType] -- an author's slip
        with pytest.raises(AgentError, match="must return messages"):
            await b.run(behavior={"compact_strategy": "bad"})


async def test_a_strategy_that_nobody_knows_is_refused_at_the_start(tmp_path: Path) -> None:
    """CMP-01."""
    async with bench(tmp_path, dumps(1), callables={"mine": print}) as b:
        with pytest.raises(InvalidRequestError, match=r"'tial'.*'mine'"):
            await b.run(behavior={"compact_strategy": "tial"})


EDITS = [
    calls(("write_file", {"path": "a.txt", "content": "one\n"})),
    calls(("read_file", {"path": "a.txt"})),
    calls(("edit", {"path": "a.txt", "old_string": "one", "new_string": "two"})),
    says("done"),
]


async def test_a_read_overtaken_by_an_edit_becomes_a_stub(tmp_path: Path) -> None:
    """FILE-07, FILE-08."""
    async with bench(tmp_path, EDITS, tools=basic_tools) as b:
        await b.run(behavior={"elide_stale_reads": "stub"})
    assert "one" in texts(b.model.requests[2])[1]
    assert "one" not in texts(b.model.requests[3])[1]


async def test_a_notice_is_added_to_the_edit_and_nothing_earlier_changes(tmp_path: Path) -> None:
    """FILE-08, CACHE-04."""
    async with bench(tmp_path, EDITS, tools=basic_tools) as b:
        await b.run(behavior={"elide_stale_reads": "notice"})
    before, after = texts(b.model.requests[2]), texts(b.model.requests[3])
    assert after[:2] == before
    assert "a.txt" in after[2].splitlines()[-1]
    assert len(after[2].splitlines()) > 1


async def test_aged_images_become_handles_that_read_file_opens(tmp_path: Path) -> None:
    """MED-01, MED-02: the bytes stay in the session."""
    turns = [calls(("shot", {})), calls(("shot", {})), calls(("shot", {})), says("done")]
    async with bench(tmp_path, turns, tools=[shot, *basic_tools]) as b:
        result = await b.run(behavior={"media_budget": {"max_items": 1, "max_bytes": 10_000_000}})
        seen = texts(b.model.requests[-1])
        handle = next(word for word in seen[0].split() if word.startswith("attachment://"))
        handle = handle.rstrip(".,;)]'\"")
        b.model.turns = [*turns, calls(("read_file", {"path": handle})), says("seen")]
        again = await b.run("show it again", session_id=result.session_id)
        path = await b.store.path(again.session_id, again.head)
    opened = next(turn for turn in reversed(path) if turn.tool_results).tool_results[0]
    assert opened.output == (TextBlock(text=handle), IMAGE)


async def test_a_handle_of_nothing_is_an_error_that_says_so(tmp_path: Path) -> None:
    """MED-01."""
    turns = [calls(("read_file", {"path": "attachment://elsewhere/1"})), says("x")]
    async with bench(tmp_path, turns, tools=basic_tools) as b:
        await b.run()
    (result,) = sent_results(b.model.requests[1])
    assert result.is_error
    assert "names no attachment of this conversation" in tool_result_to_text(result.output)


async def test_a_request_stays_under_the_providers_limit_of_bytes(tmp_path: Path) -> None:
    """K-CONTEXT-04: the oldest pictures go, the newest stay."""

    @tool(read_only=True)
    async def big_shot() -> Any:
        """Take a large picture."""
        return (ImageBlock(media_type="image/png", data="QUFB" * 25_000),)

    turns = [*[calls(("big_shot", {}))] * 6, says("done")]
    async with bench(tmp_path, turns, tools=[big_shot]) as b:
        b.model.capabilities = ProviderCapabilities(max_request_bytes=320_000)
        await b.run()
    pictures = [
        any(isinstance(part, ImageBlock) for part in result.output)
        for result in sent_results(b.model.requests[-1])
    ]
    assert pictures[0] is False
    assert pictures[-1] is True
