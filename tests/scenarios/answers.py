"""Scenarios of answers: structured output, a history that is refused, a context too long."""

from typing import Any

from tests.scenarios.book import GATED, NO_WAIT, call, ended, gated, scenario
from tests.support.players import Player
from zidane_core.output import OUTPUT_TOOL
from zidane_core.values import Json

N: Json = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOO_LONG = {"status": 400, "message": "prompt is too long: 210000 tokens > 200000 maximum"}
BAD_SIGNATURE = {
    "status": 400,
    "message": "messages.1.content.0: Invalid `signature` in `thinking` block",
}

THOUGHT = {"text": "one", "thinking": "hm"}


def injected(turns: list[Any]) -> list[str]:
    return [turn["injected"] for turn in turns if turn.get("injected")]


def output(call_id: str, **value: Any) -> dict[str, Any]:
    return {"tool_calls": [call(OUTPUT_TOOL, call_id, **value)]}


@scenario([{"text": "It is 5."}, {"text": "It is <gate mid> 5."}, output("o", n=5)], crashes=True)
async def an_output_after_two_reminders(player: Player) -> None:
    """K-OUTPUT-01, OUT-01, OUT-02, DUR-02."""
    await player.start(prompt="go", model=GATED, behavior={"schema": N})
    await player.reached("mid")
    await player.crash("mid")
    player.open("mid")
    played = await ended(player)
    assert (played.results[0]["output"], injected(played.turns)) == ({"n": 5}, ["output-retry"] * 2)
    refused: Any = played.results[0]["output_refused"]
    assert len(refused) == 2


@scenario([{"text": '```json\n{"n": 5}\n```'}])
async def an_output_in_a_fenced_block(player: Player) -> None:
    """K-OUTPUT-01."""
    await player.start(prompt="go", behavior={"schema": N})
    played = await ended(player)
    stats: Any = played.results[0]["stats"]
    assert (played.results[0]["output"], stats["output"]) == ({"n": 5}, {"n": 5})


@scenario([output("o", n="five")])
async def an_output_that_never_fits(player: Player) -> None:
    """K-OUTPUT-02, OUT-02: past the script's end the model says nothing."""
    await player.start(prompt="go", behavior={"schema": N, "max_output_retries": 2})
    played = await ended(player, "error")
    error: Any = played.results[0]["error"]
    assert (error["type"], error["details"]["attempts"]) == ("AgentOutputError", 3)
    assert error["details"]["reasons"][0].startswith("Invalid arguments for 'final_output': n:")


@scenario(
    [
        {"tool_calls": [*gated("look", "a"), call(OUTPUT_TOOL, "o", n=5)]},
        {"text": "{{last_result}}"},
    ],
    crashes=True,
)
async def an_output_beside_another_call(player: Player) -> None:
    """K-OUTPUT-03: both get their results, and the session goes on."""
    await player.start(prompt="go", behavior={"schema": N})
    await player.reached("a")
    await player.crash("a")
    player.open("a")
    await player.result()
    await player.start(prompt="and?")
    played = await ended(player)
    assert played.results_of_calls == {"a": "saw a", "o": "Output accepted."}
    assert [result["output"] for result in played.results] == [{"n": 5}, None]


@scenario(
    [
        {"tool_calls": [call("echo", "a", text="x" * 3_000)]},
        {"error": {**TOO_LONG, "times": 2}, "text": "made it"},
    ]
)
async def a_context_that_is_too_long(player: Player) -> None:
    """LOOP-14: shortened, deeper each time, without using up the attempts."""
    behavior = {"retry": {**NO_WAIT, "max_attempts": 1}}
    await player.start(prompt="go", behavior=behavior)
    played = await ended(player)
    assert played.texts == ["user: go", "assistant: made it"]
    assert played.results_of_calls == {"a": "x" * 3_000}


@scenario(
    [{"text": "one", "thinking": "hm"}, {"error": {**BAD_SIGNATURE, "times": 1}, "text": "two"}]
)
async def a_history_that_is_mended_once(player: Player) -> None:
    """K-ANTHROPIC-09."""
    await player.start(prompt="go")
    await player.result()
    await player.start(prompt="more")
    played = await ended(player)
    assert played.texts == ["user: go", "assistant: one", "user: more", "assistant: two"]


@scenario(
    [{"text": "one", "thinking": "hm"}, {"error": {**BAD_SIGNATURE, "times": 2}, "text": "two"}]
)
async def a_history_that_is_refused_twice(player: Player) -> None:
    """K-ANTHROPIC-09: a typed error, no loop."""
    await player.start(prompt="go")
    await player.result()
    await player.start(prompt="more")
    played = await ended(player, "error")
    error: Any = played.results[1]["error"]
    assert error["type"] == "AgentProviderError"
