"""Design, section 5, "Scripted model": every field of a script, and its errors."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from activities.providers.base import ModelTurn
from activities.providers.scripted import ScriptedProvider, load_script
from tests.support.model_requests import (
    RecordingSink,
    assistant,
    call,
    failure_of,
    model_request,
    result,
    user,
)
from zidane_core.content import TextBlock, ThinkingBlock
from zidane_core.errors import InvalidRequestError, ProviderError, ProviderFailure
from zidane_core.usage import TurnUsage


class _Scripts:
    """Writes a script and plays turns of it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "script.json"
        self.sink = RecordingSink()

    def write(self, *turns: dict[str, Any]) -> None:
        self.path.write_text(json.dumps({"turns": turns}))

    async def play(self, **fields: Any) -> ModelTurn:
        messages = fields.pop("messages", (user("hi"),))
        request = model_request(*messages, model=str(self.path), **fields)
        return await ScriptedProvider().stream(request, self.sink)

    async def failure(self, **fields: Any) -> ProviderFailure:
        with pytest.raises(ProviderError) as raised:
            await self.play(**fields)
        return failure_of(raised.value)

    @property
    def streamed(self) -> str:
        return "".join(piece for kind, piece in self.sink.events if kind == "text")


@pytest.fixture
def scripts(tmp_path: Path) -> _Scripts:
    return _Scripts(tmp_path)


async def test_the_entry_is_chosen_by_the_number_of_assistant_turns(scripts: _Scripts) -> None:
    """Stateless: the same request gives the same answer, in any order."""
    scripts.write({"text": "zero"}, {"text": "one"})
    for turn, text in ((1, "one"), (0, "zero"), (1, "one")):
        played = await scripts.play(assistant_turns=turn)
        assert played.blocks == (TextBlock(text=text),)
        assert played.finish_reason == "stop"


async def test_past_the_end_it_answers_with_nothing_and_stops(scripts: _Scripts) -> None:
    scripts.write({"text": "only"})
    played = await scripts.play(assistant_turns=1)
    assert (played.blocks, played.finish_reason) == ((), "stop")
    assert scripts.sink.events == []


async def test_a_turn_may_think_write_and_call(scripts: _Scripts) -> None:
    scripts.write(
        {
            "thinking": "Hm.",
            "text": "Look:",
            "tool_calls": [
                {"name": "read_file", "input": {"path": "a"}},
                {"name": "glob", "id": "mine"},
            ],
        }
    )
    played = await scripts.play()
    assert played.blocks == (
        ThinkingBlock(text="Hm."),
        TextBlock(text="Look:"),
        call("call_0_0", "read_file", path="a"),
        call("mine", "glob"),
    )
    assert played.finish_reason == "tool-calls"
    assert scripts.sink.events == [
        ("thinking", "Hm."),
        ("text", "Look:"),
        ("tool_call", "read_file"),
        ("tool_arguments", '{"path": "a"}'),
        ("tool_call", "glob"),
        ("tool_arguments", "{}"),
    ]


async def test_minted_ids_differ_between_turns_and_not_between_attempts(
    scripts: _Scripts,
) -> None:
    turn = {"tool_calls": [{"name": "a"}, {"name": "b"}]}
    scripts.write(turn, turn)
    ids = [
        [block.id for block in played.blocks if block.type == "tool_call"]
        for played in [await scripts.play(assistant_turns=n) for n in (0, 1, 1)]
    ]
    assert ids == [["call_0_0", "call_0_1"], ["call_1_0", "call_1_1"], ["call_1_0", "call_1_1"]]


async def test_a_finish_reason_may_be_given(scripts: _Scripts) -> None:
    scripts.write({"text": "cut", "finish_reason": "length"})
    assert (await scripts.play()).finish_reason == "length"


async def test_text_streams_in_pieces_of_the_length_asked_for(scripts: _Scripts) -> None:
    scripts.write({"thinking": "abc", "text": "defgh", "chunk_chars": 2, "delay_ms": 1})
    await scripts.play()
    assert scripts.sink.events == [
        ("thinking", "ab"),
        ("thinking", "c"),
        ("text", "de"),
        ("text", "fg"),
        ("text", "h"),
    ]


async def test_a_delay_stands_between_two_pieces(scripts: _Scripts) -> None:
    """With a delay of a day only the first piece can come."""
    scripts.write({"text": "abc", "chunk_chars": 1, "delay_ms": 86_400_000})
    load_script(str(scripts.path))
    playing = asyncio.create_task(scripts.play())
    await asyncio.sleep(0)
    assert scripts.sink.events == [("text", "a")]
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing


async def test_a_hang_comes_after_everything_has_streamed(scripts: _Scripts) -> None:
    scripts.write({"text": "abc", "tool_calls": [{"name": "a"}], "hang_ms": 86_400_000})
    load_script(str(scripts.path))
    playing = asyncio.create_task(scripts.play())
    await asyncio.sleep(0)
    assert [kind for kind, _ in scripts.sink.events] == ["text", "tool_call", "tool_arguments"]
    assert not playing.done()
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing


async def test_an_error_fails_the_first_attempts_and_then_goes_on(scripts: _Scripts) -> None:
    scripts.write({"error": {"status": 529, "retry_after_ms": 50, "times": 2}, "text": "done"})
    for attempt in (1, 2):
        assert await scripts.failure(attempt=attempt) == ProviderFailure(
            kind="overloaded",
            message="The scripted model is overloaded (HTTP 529).",
            retryable=True,
            retry_after_ms=50,
            status=529,
            provider="scripted",
        )
    assert scripts.sink.events == []
    played = await scripts.play(attempt=3)
    assert played.blocks == (TextBlock(text="done"),)


async def test_an_error_without_times_fails_once(scripts: _Scripts) -> None:
    scripts.write({"error": {"status": 401}, "text": "done"})
    failure = await scripts.failure(attempt=1)
    assert (failure.kind, failure.retryable) == ("auth", False)
    assert (await scripts.play(attempt=2)).blocks == (TextBlock(text="done"),)


async def test_an_error_may_come_in_the_middle_of_the_text(scripts: _Scripts) -> None:
    """PROV-06: the failure says that text had streamed, and how much reasoning is lost."""
    scripts.write(
        {
            "thinking": "Hmm",
            "text": "Hello world",
            "tool_calls": [{"name": "a"}],
            "error": {"status": 500, "after_chars": 5},
        }
    )
    failure = await scripts.failure()
    assert (failure.streamed, failure.discarded_thinking) == (True, 3)
    assert scripts.sink.events == [("thinking", "Hmm"), ("text", "Hello")]


async def test_an_error_may_name_its_kind_and_message(scripts: _Scripts) -> None:
    scripts.write({"error": {"kind": "network", "message": "The cable is out."}})
    assert await scripts.failure() == ProviderFailure(
        kind="network", message="The cable is out.", retryable=True, provider="scripted"
    )
    scripts.write({"error": {"status": 400, "message": "prompt is too long"}})
    failure = await scripts.failure()
    assert (failure.kind, failure.message) == ("context_exceeded", "prompt is too long")


async def test_usage_may_be_given(scripts: _Scripts) -> None:
    """USE-01, USE-02."""
    scripts.write({"text": "a", "usage": {"input": 7, "cache_read": 3, "cost": 0.5}, "model": "m"})
    assert (await scripts.play()).usage == TurnUsage(
        input=7, cache_read=3, cost=0.5, model_id="m", provider="scripted"
    )


async def test_usage_is_estimated_from_what_is_new(scripts: _Scripts) -> None:
    """A token per four characters; earlier turns do not count, so a turn costs the same late."""
    scripts.write({}, {"text": "x" * 40})
    messages = (
        user("y" * 4_000),
        assistant(call("c", "a")),
        user(result("c", "z" * 80)),
    )
    played = await scripts.play(messages=messages, assistant_turns=1)
    assert played.usage == TurnUsage(
        input=20, output=10, model_id="script.json", provider="scripted"
    )


async def test_placeholders_are_filled_in_text_and_in_nested_inputs(scripts: _Scripts) -> None:
    scripts.write(
        {},
        {
            "text": "{{prompt}} / {{last_result}} / {{ turn }} / {{other}}",
            "tool_calls": [
                {"name": "a", "input": {"x": ["{{last_result}}", {"y": "n{{turn}}"}], "z": 1}}
            ],
        },
    )
    messages = (
        user("Do {{turn}}"),
        assistant(call("c1", "a"), call("c2", "a")),
        user(result("c1", "first"), result("c2", "second")),
    )
    played = await scripts.play(messages=messages, assistant_turns=1)
    # What is filled in is not filled again.
    assert played.blocks == (
        TextBlock(text="Do {{turn}} / second / 1 / {{other}}"),
        call("call_1_0", "a", x=["second", {"y": "n1"}], z=1),
    )
    assert scripts.streamed == "Do {{turn}} / second / 1 / {{other}}"


async def test_placeholders_without_a_value_are_empty(scripts: _Scripts) -> None:
    scripts.write({"text": "[{{last_result}}]"})
    assert (await scripts.play()).blocks == (TextBlock(text="[]"),)


async def test_half_a_surrogate_pair_is_replaced(scripts: _Scripts) -> None:
    """K-PAIRING-02: a JSON script may hold one."""
    scripts.path.write_text('{"turns": [{"text": "ok \\ud83d"}]}')
    assert (await scripts.play()).blocks == (TextBlock(text="ok \ufffd"),)
    assert scripts.streamed == "ok \ufffd"


def test_the_example_of_the_design_is_a_script(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(
        """
turns:
  - text: "Let me look."
    tool_calls: [{name: read_file, input: {path: README.md}}]
    chunk_chars: 8
    delay_ms: 20
  - error: {status: 529, retry_after_ms: 50, times: 2, after_chars: 0}
    text: "done"
  - text: "bye"
    hang_ms: 60000
"""
    )
    script = load_script(str(path))
    assert [turn.text for turn in script.turns] == ["Let me look.", "done", "bye"]
    assert script.turns[0].tool_calls[0].input == {"path": "README.md"}


def test_a_script_is_read_once_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("turns: [{text: a}]")
    first = load_script(str(path))
    assert load_script(str(path)) is first
    path.write_text("turns: [{text: b}]")
    # The same size: only the time tells, and it may not have moved on by itself.
    os.utime(path, ns=(1, 1))
    assert load_script(str(path)).turns[0].text == "b"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("turns: [{text: a}, {txt: b}]", ["turn 1", "turns[1].txt", "Did you mean 'text'"]),
        ("turns: [{tool_calls: [{nam: a}]}]", ["turn 0", "tool_calls[0].name", "is missing"]),
        ("turns: [{tool_calls: [{name: a, inputs: {}}]}]", ["inputs", "Did you mean 'input'"]),
        ("turns: [{error: {times: 2}}]", ["turn 0", "turns[0].error", "a status or a kind"]),
        ("turns: [{error: {status: 529, tims: 2}}]", ["error.tims", "Did you mean 'times'"]),
        ("turns: [{error: {status: 200}}]", ["error.status", "got 200"]),
        ("turns: [{usage: {inputs: 1}}]", ["usage.inputs", "Did you mean 'input'"]),
        ("turns: [{chunk_chars: 0}]", ["chunk_chars", "got 0"]),
        ("turns: [{finish_reason: done}]", ["finish_reason", "got 'done'"]),
        ("turns: [{text: 5}]", ["turns[0].text", "got 5"]),
        ("turn: []", ["turn", "turns"]),
        ("{}", ["turns", "missing"]),
        ("- text: a", ["must be a mapping with the key 'turns'", "list"]),
        ("", ["must be a mapping", "NoneType"]),
        ("turns: [", ["cannot be read"]),
    ],
)
def test_a_broken_script_names_file_turn_and_field(
    tmp_path: Path, text: str, parts: list[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InvalidRequestError) as raised:
        load_script(str(path))
    for part in (str(path), *parts):
        assert part in str(raised.value)


async def test_a_missing_script_fails_with_its_path(tmp_path: Path) -> None:
    request = model_request(model=str(tmp_path / "none.yaml"))
    with pytest.raises(InvalidRequestError, match=r"none\.yaml.*No such file"):
        await ScriptedProvider().stream(request, RecordingSink())
