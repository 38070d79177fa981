"""The scenarios: a script for the model, and how clients behave while it is played.

Each is played inline and on a Temporal server; the sessions must be identical. Clients act at
gates and phases, never by time. `player.crash(GATE)` marks where the crash test kills the worker.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.players import Played, Player
from zidane_core.runs import Phase
from zidane_core.tools import CANCELLED_RESULT, SKIPPED_BY_USER_MESSAGE

Play = Callable[[Player], Awaitable[None]]
NO_WAIT = {"initial_delay_ms": 0}


@dataclass(frozen=True)
class Scenario:
    """One entry of the book."""

    name: str
    script: Sequence[Any]
    play: Play
    crashes: bool = False
    """Whether it has a place to kill the worker at."""


BOOK: dict[str, Scenario] = {}


def scenario(script: Sequence[Any], *, crashes: bool = False) -> Callable[[Play], Play]:
    """Enter a scenario under its function's name."""

    def enter(play: Play) -> Play:
        name = play.__name__
        BOOK[name] = Scenario(name, script, play, crashes)
        return play

    return enter


def call(tool: str, call_id: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "id": call_id, "input": arguments}


def gated(call_name: str, *names: str) -> list[dict[str, Any]]:
    """Calls that wait at the gate that their id names."""
    return [call(call_name, name, name=name) for name in names]


GATED = "gated:HERE/script.yaml"


async def ended(player: Player, status: str = "completed") -> Played:
    result = await player.result()
    assert result["status"] == status, result
    return await player.played()


# -- plain runs ------------------------------------------------------------------------------


@scenario([{"text": "hello"}])
async def a_plain_answer(player: Player) -> None:
    """RUN-01, LOOP-01."""
    await player.start(prompt="hi")
    played = await ended(player)
    assert played.texts == ["user: hi", "assistant: hello"]
    assert played.results[0]["text"] == "hello"


@scenario([{"text": "two parts"}])
async def a_prompt_of_parts(player: Player) -> None:
    """PART-01, PART-02."""
    image = {"type": "image", "data": "QQ==", "media_type": "image/png"}
    await player.start(prompt=[{"type": "text", "text": "see"}, image])
    played = await ended(player)
    assert [block["type"] for block in played.turns[0]["content"]] == ["text", "image"]


@scenario([{"tool_calls": [call("echo", "a", text="x")]}])
async def an_empty_answer_past_the_end(player: Player) -> None:
    await player.start(prompt="go")
    played = await ended(player)
    assert played.roles == ["user", "assistant", "user", "assistant"]
    assert played.results[0]["text"] == ""


@scenario([{"text": "one"}, {"text": "two {{prompt}}"}])
async def a_second_run_on_the_session(player: Player) -> None:
    """RUN-02, DUR-05, CTL-10: a run that has ended leaves its session idle."""
    await player.start(prompt="first")
    await ended(player)
    await player.start(prompt="second")
    played = await ended(player)
    assert played.texts == [
        "user: first",
        "assistant: one",
        "user: second",
        "assistant: two first",
    ]
    assert len(played.session["runs"]) == 2  # pyright: ignore[reportArgumentType] -- a list


@scenario([{"text": "one"}, {"text": "two"}, {"text": "again"}])
async def a_run_that_goes_on_from_an_earlier_one(player: Player) -> None:
    """RUN-14: the third run leaves the second aside."""
    await player.start(prompt="first")
    await ended(player)
    await player.start(prompt="second")
    await ended(player)
    await player.start(prompt="third", resume_run_id=player.run_ids[0])
    played = await ended(player)
    assert played.texts == [
        "user: first",
        "assistant: one",
        "user: third",
        "assistant: two",
    ]


@scenario([])
async def a_request_that_is_wrong(player: Player) -> None:
    """RUN-04, K-TEMPORAL-05: a typed refusal that names the nearest field."""
    await player.start(prompt="x", behavior={"max_turn": 3})
    result = await player.result()
    error: Any = result["error"]
    assert (result["status"], error["type"]) == ("error", "InvalidRequestError")
    assert "max_turns" in error["message"]


# -- tools -----------------------------------------------------------------------------------


@scenario([{"tool_calls": gated("look", "a", "b", "c")}, {"text": "{{last_result}}"}], crashes=True)
async def tools_in_parallel(player: Player) -> None:
    """TOOL-02: all at once, results in call order however they end."""
    await player.start(prompt="look")
    await player.reached("a", "b", "c")
    await player.crash("c")
    for name in ("c", "b", "a"):
        player.open(name)
    played = await ended(player)
    assert list(played.results_of_calls.items()) == [(n, f"saw {n}") for n in "abc"]
    assert played.results[0]["text"] == "saw c"


@scenario(
    [{"tool_calls": [*gated("look", "a"), *gated("hold", "b"), *gated("look", "c")]}],
    crashes=True,
)
async def a_barrier_between_two_calls(player: Player) -> None:
    """TOOL-02: an unsafe call waits for the fleet, then runs alone."""
    await player.start(prompt="go")
    for name, tool in (("a", "look"), ("b", "hold"), ("c", "look")):
        await player.reached(name)
        status = await player.until(lambda status: len(_list(status["running_calls"])) == 1)
        assert status["running_calls"] == [f"{tool} ({name})"]
        if name == "b":
            await player.crash("b")
        player.open(name)
    played = await ended(player)
    assert list(played.results_of_calls) == ["a", "b", "c"]


@scenario([{"tool_calls": gated("look", "a", "b")}])
async def one_call_at_a_time(player: Player) -> None:
    """TOOL-02: a cap of 1 is strictly sequential."""
    await player.start(prompt="go", behavior={"max_concurrent_tools": 1})
    for name in ("a", "b"):
        await player.reached(name)
        status = await player.until(lambda status: len(_list(status["running_calls"])) == 1)
        assert status["running_calls"] == [f"look ({name})"]
        player.open(name)
    await ended(player)


@scenario(
    [
        {
            "tool_calls": [
                call("ecko", "a", text="x"),
                call("count", "b", number="many"),
                call("count", "c", number="41", exact="true"),
                call("count", "d", numbr=1),
            ]
        }
    ]
)
async def unknown_tools_and_wrong_arguments(player: Player) -> None:
    """TOOL-08, TOOL-14: error results that the model can act on."""
    await player.start(prompt="go")
    results = (await ended(player)).results_of_calls
    assert results["a"].startswith("Unknown tool 'ecko'. Known: ")
    assert "number" in results["b"]
    assert "The tool was not run." in results["b"]
    assert results["c"] == "42 True"
    assert "numbr" in results["d"]


@scenario([{"tool_calls": [call("boom", "a", text="x"), call("fussy", "b", text="y")]}])
async def tools_that_raise(player: Player) -> None:
    """TOOL-14, STATE-06: what a raising call staged is dropped."""
    await player.start(prompt="go")
    played = await ended(player)
    assert played.results_of_calls == {"a": "ValueError: x", "b": "not y"}
    assert played.session["state"] == {}


@scenario(
    [
        {
            "tool_calls": [
                call("echo", "a", text="plain"),
                call("in_thread", "b", text="thread"),
                call("glance", "c", text="local"),
            ]
        }
    ]
)
async def plain_async_threaded_and_local_bodies(player: Player) -> None:
    """K-TEMPORAL-04: every form of body works; a quick one runs as a local activity."""
    await player.start(prompt="go")
    results = (await ended(player)).results_of_calls
    assert results == {"a": "plain", "b": "THREAD", "c": "glanced local"}


@scenario([{"tool_calls": [call("say", "a", text="x")]}])
async def a_tool_called_by_its_alias(player: Player) -> None:
    """TOOL-05, SESS-08: sessions hold the canonical name."""
    await player.start(prompt="go")
    played = await ended(player)
    assert played.turns[1]["content"][0]["name"] == "echo"
    assert played.results_of_calls == {"a": "x"}


@scenario(
    [
        {
            "tool_calls": [
                call("remember", "a", key="x", value="1"),
                call("remember", "b", key="y", value="2"),
                call("recall", "c", key="x"),
            ]
        },
        {"tool_calls": [call("remember", "d", key="x"), call("recall", "e", key="x")]},
        {"text": "so far"},
        {"tool_calls": [call("recall", "f", key="y")]},
    ]
)
async def tool_state_across_calls_and_runs(player: Player) -> None:
    """STATE-02, STATE-08, STATE-09, STATE-12: set, read, deleted, and there in the next run."""
    await player.start(prompt="keep")
    await ended(player)
    await player.start(prompt="and read")
    played = await ended(player)
    assert played.results_of_calls == {
        "a": "x",
        "b": "x,y",
        "c": "x is 1",
        "d": "y",
        "e": "x is None",
        "f": "y is 2",
    }
    assert played.session["state"] == {"y": "2"}


@scenario([{"tool_calls": [call("big", "a", lines=30_000)]}, {"text": "long"}])
async def an_output_larger_than_a_payload(player: Player) -> None:
    """K-TEMPORAL-01: 2.7 MB come back as head, tail and a note; the run ends normally."""
    await player.start(prompt="go")
    result = (await ended(player)).results_of_calls["a"]
    assert len(result.encode()) < 140_000
    assert "2700000 bytes of big" in result


@scenario(
    [
        {"text": "which?", "tool_calls": [call("ask_user", "q", question="Red or blue?")]},
        {"text": "{{last_result}} it is"},
    ]
)
async def a_question_to_a_person(player: Player) -> None:
    """TOOL-18, CTL: waits for the answer, holding nothing."""
    await player.start(prompt="paint")
    status = await player.phase(Phase.WAITING)
    assert status["questions"] == [
        {"call_id": "q", "tool": "ask_user", "text": "Red or blue?"},
    ]
    await player.answer("q", "blue")
    played = await ended(player)
    assert played.results[0]["text"] == "blue it is"


@scenario(
    [{"tool_calls": [call("ask_user", "q", question="Go?"), *gated("look", "a")]}],
)
async def an_abort_while_a_question_is_open(player: Player) -> None:
    """CTL-09: an open question ends as cancelled."""
    await player.start(prompt="go")
    await player.phase(Phase.WAITING)
    await player.send("abort", "no more")
    played = await ended(player, "aborted")
    assert played.results_of_calls == {"q": CANCELLED_RESULT, "a": CANCELLED_RESULT}


# -- messages while it works -----------------------------------------------------------------


@scenario([{"tool_calls": gated("hold", "a", "b", "c")}, {"text": "ok"}], crashes=True)
async def a_steer_between_calls(player: Player) -> None:
    """CTL-06, K-STEER-02: what runs finishes, the rest is skipped, the message follows."""
    await player.start(prompt="go")
    await player.reached("a")
    await player.send("steer", "stop, wrong dir")
    await player.crash("a")
    player.open("a")
    played = await ended(player)
    assert played.results_of_calls == {
        "a": "held a",
        "b": SKIPPED_BY_USER_MESSAGE,
        "c": SKIPPED_BY_USER_MESSAGE,
    }
    assert played.roles == ["user", "assistant", "user", "user", "assistant"]
    assert played.texts[1:] == ["user: stop, wrong dir", "assistant: ok"]


@scenario([{"tool_calls": gated("look", "a", "b")}, {"text": "ok"}])
async def two_steers_behind_the_results(player: Player) -> None:
    """K-PAIRING-01, CTL-05: both results in call order, then both messages in theirs."""
    await player.start(prompt="go")
    await player.reached("a", "b")
    await player.send("steer", {"prompt": "use C instead", "id": "one"})
    await player.send("steer", {"prompt": "and D", "id": "two"})
    player.open("b", "a")
    played = await ended(player)
    assert played.results_of_calls == {"a": "saw a", "b": "saw b"}
    assert played.texts[1:3] == ["user: use C instead", "user: and D"]
    assert [turn.get("message_id") for turn in played.turns[3:5]] == ["one", "two"]


@scenario([{"text": "half <gate mid> whole"}, {"text": "brief"}], crashes=True)
async def a_steer_during_the_stream(player: Player) -> None:
    """CTL-01: the answer is kept, the message gets a turn of its own."""
    await player.start(prompt="go", model=GATED)
    await player.reached("mid")
    await player.send("steer", "be brief")
    await player.crash("mid")
    player.open("mid")
    played = await ended(player)
    assert played.roles == ["user", "assistant", "user", "assistant"]
    assert played.texts[2:] == ["user: be brief", "assistant: brief"]


@scenario([{"text": "<gate mid>", "tool_calls": gated("hold", "a", "b")}, {"text": "ok"}])
async def a_steer_before_any_call_began(player: Player) -> None:
    """CTL-06: no call of the turn runs."""
    await player.start(prompt="go", model=GATED)
    await player.reached("mid")
    await player.send("steer", "wait")
    player.open("mid")
    played = await ended(player)
    assert set(played.results_of_calls.values()) == {SKIPPED_BY_USER_MESSAGE}


@scenario([{"text": "1 <gate mid>"}, {"text": "2"}, {"text": "3"}])
async def follow_ups_one_by_one(player: Player) -> None:
    """CTL-02, CTL-05: each when the run would end, in order."""
    await player.start(prompt="go", model=GATED)
    await player.reached("mid")
    await player.send("follow_up", "then two")
    await player.send("follow_up", {"prompt": "then three", "system_notes": ["hurry"]})
    player.open("mid")
    played = await ended(player)
    assert played.texts[2:] == [
        "user: then two",
        "assistant: 2",
        "user: then three",
        "user: hurry",
        "assistant: 3",
    ]


@scenario([{"text": "1 <gate mid>"}, {"text": "2"}, {"text": "3"}])
async def a_message_with_an_id_that_was_taken(player: Player) -> None:
    """CTL-03: the second one is ignored."""
    await player.start(prompt="go", model=GATED)
    await player.reached("mid")
    await player.send("steer", {"prompt": "once", "id": "same"})
    await player.send("follow_up", {"prompt": "twice", "id": "same"})
    player.open("mid")
    played = await ended(player)
    assert [text for text in played.texts if text.startswith("user")] == ["user: go", "user: once"]


@scenario([{"text": "1 <gate mid>"}, {"text": "2"}])
async def signals_that_cannot_be_read(player: Player) -> None:
    """K-TEMPORAL-15: refused one by one; the good one is used."""
    await player.start(prompt="go", model=GATED)
    await player.reached("mid")
    for bad in (5, {"txt": "a"}, {"prompt": ""}, [1]):
        await player.send("steer", bad)
    await player.send("pause", {"mode": "maybe"})
    await player.send("steer", "good")
    player.open("mid")
    played = await ended(player)
    assert played.texts[2:] == ["user: good", "assistant: 2"]
    events = await player.store.events_after(player.session_id, 0)
    refused = [event.fields["name"] for event in events if event.name == "control:refused"]
    assert refused == ["steer"] * 4 + ["pause"]


@scenario([{"tool_calls": gated("look", "a")}])
async def a_steer_that_no_turn_is_left_for(player: Player) -> None:
    """K-STEER-01 (c), LOOP-02: listed as unconsumed when max_turns is reached."""
    await player.start(prompt="go", behavior={"max_turns": 1})
    await player.reached("a")
    await player.send("steer", {"prompt": "also do X", "id": "x"})
    player.open("a")
    played = await ended(player)
    assert played.results[0]["unconsumed"] == [{"queue": "steer", "prompt": "also do X", "id": "x"}]
    assert played.results_of_calls == {"a": "saw a"}


# -- pause, abort, suspend -------------------------------------------------------------------


@scenario([{"tool_calls": gated("look", "a")}, {"text": "on"}])
async def a_pause_that_holds(player: Player) -> None:
    """CTL-07, RUN-09, DUR-10: at the turn boundary, until resume."""
    await player.start(prompt="go")
    await player.reached("a")
    await player.send("pause")
    player.open("a")
    status = await player.phase(Phase.PAUSED)
    assert "resume" in str(status["reason"])
    await player.send("resume")
    played = await ended(player)
    assert played.results[0]["text"] == "on"


@scenario([{"tool_calls": gated("look", "a")}, {"text": "on"}])
async def a_pause_that_returns_and_a_run_that_goes_on(player: Player) -> None:
    """CTL-07: nothing is lost between the two runs."""
    await player.start(prompt="go")
    await player.reached("a")
    await player.send("pause", {"mode": "return"})
    player.open("a")
    await ended(player, "paused")
    await player.start()
    played = await ended(player)
    assert played.roles == ["user", "assistant", "user", "assistant"]
    assert played.results[1]["text"] == "on"


@scenario([{"text": "half <gate mid> whole"}])
async def an_abort_in_the_stream(player: Player) -> None:
    """CTL-09, CTL-11: what had streamed is shown and is not on the path."""
    await player.start(prompt="go", model=GATED)
    await player.reached("mid")
    await player.send("abort", {"reason": "enough"})
    played = await ended(player, "aborted")
    assert played.texts == ["user: go"]
    stored = await player.store.turns_of_run(player.run_ids[0])
    assert [turn.text for turn in stored if turn.aborted] == ["half "]


@scenario([{"tool_calls": [*gated("look", "a"), *gated("hold", "b")]}])
async def an_abort_in_a_tool(player: Player) -> None:
    """CTL-09, K-TEMPORAL-14: every open call has a cancelled result."""
    await player.start(prompt="go")
    await player.reached("a")
    await player.send("abort")
    played = await ended(player, "aborted")
    assert played.results_of_calls == {"a": CANCELLED_RESULT, "b": CANCELLED_RESULT}


@scenario([{"tool_calls": gated("look", "a")}, {"text": "picked up"}])
async def a_suspended_run_that_is_picked_up(player: Player) -> None:
    """CTL-08: ends resumable; another run goes on from its turns."""
    await player.start(prompt="go")
    await player.reached("a")
    await player.send("suspend")
    await ended(player, "suspended")
    await player.start(prompt="go on", resume_run_id=player.run_ids[0])
    played = await ended(player)
    assert played.results_of_calls == {"a": CANCELLED_RESULT}
    assert played.texts == ["user: go", "user: go on", "assistant: picked up"]


# -- budgets and caps ------------------------------------------------------------------------


@scenario([{"tool_calls": [call("echo", "a", text="x")], "usage": {"input": 60, "output": 50}}])
async def too_many_tokens(player: Player) -> None:
    """BUD-02, BUD-04, RUN-24: after the turn's tools, as aborted, with its spend."""
    await player.start(prompt="go", behavior={"max_total_tokens": 100})
    played = await ended(player, "aborted")
    error: Any = played.results[0]["error"]
    assert error["type"] == "AgentBudgetExceededError"
    assert error["details"] == {"limit": "tokens", "spent": 110, "allowed": 100}
    assert played.results_of_calls == {"a": "x"}
    stats: Any = played.results[0]["stats"]
    assert (stats["total_in"], stats["total_out"]) == (60, 50)


@scenario([{"tool_calls": [call("echo", "a", text="x")], "usage": {"cost": 0.75}}])
async def too_much_money(player: Player) -> None:
    """BUD-01."""
    await player.start(prompt="go", behavior={"max_cost_usd": 0.5})
    played = await ended(player, "aborted")
    error: Any = played.results[0]["error"]
    assert error["details"] == {"limit": "cost", "spent": 0.75, "allowed": 0.5}


WALL_MS = 2500


@scenario([{"text": "slow <gate mid>", "tool_calls": [call("echo", "a", text="x")]}])
async def too_much_time(player: Player) -> None:
    """BUD-03: waiting counts; checked after the turn."""
    await player.start(prompt="go", model=GATED, behavior={"max_wall_ms": WALL_MS})
    await player.reached("mid")
    end = time.monotonic() + WALL_MS / 1000
    await player.until(lambda _: time.monotonic() > end)
    player.open("mid")
    played = await ended(player, "aborted")
    error: Any = played.results[0]["error"]
    assert (error["details"]["limit"], error["details"]["allowed"]) == ("wallClock", WALL_MS)


@scenario([{"text": f"{n}", "tool_calls": [call("echo", f"c{n}", text="x")]} for n in range(5)])
async def the_last_turn_allowed(player: Player) -> None:
    """LOOP-02, LOOP-17: a clean end, every call answered."""
    await player.start(prompt="go", behavior={"max_turns": 2})
    played = await ended(player)
    assert played.roles == ["user", "assistant", "user", "assistant", "user"]
    assert played.results[0]["error"] is None


# -- recoveries ------------------------------------------------------------------------------


def cut(text: str) -> dict[str, Any]:
    return {"text": text, "finish_reason": "length"}


@scenario([cut("one "), cut("two "), {"text": "three"}])
async def an_answer_cut_at_the_cap(player: Player) -> None:
    """LOOP-08, LOOP-13."""
    await player.start(prompt="go", behavior={"resume_on_max_tokens": True})
    played = await ended(player)
    assert [turn.get("injected") for turn in played.turns if turn["role"] == "user"] == [
        None,
        "length-continue",
        "length-continue",
    ]
    assert played.texts[-1] == "assistant: three"


@scenario([cut("one "), cut(""), cut("")])
async def a_model_that_only_spins(player: Player) -> None:
    """LOOP-10, ERR-03."""
    await player.start(prompt="go", behavior={"resume_on_max_tokens": True})
    played = await ended(player, "error")
    error: Any = played.results[0]["error"]
    assert error["type"] == "AgentLengthResumeExhaustedError"


@scenario([{"finish_reason": "pause"}, {"text": "done"}])
async def a_turn_that_ends_in_a_pause(player: Player) -> None:
    """LOOP-06."""
    await player.start(prompt="go")
    played = await ended(player)
    assert played.texts == ["user: go", "user: Please continue.", "assistant: done"]
    assert played.turns[1]["usage"]["finish_reason"] == "pause"


@scenario([{"text": "no", "finish_reason": "content-filter"}] * 2)
async def a_refusal_that_stays(player: Player) -> None:
    """LOOP-11: at the cap a clean end with its finish reason."""
    await player.start(prompt="go", behavior={"max_consecutive_refusal_resumes": 1})
    played = await ended(player)
    assert played.turns[2]["injected"] == "refusal-retry"
    assert played.turns[-1]["usage"]["finish_reason"] == "content-filter"


# -- providers that fail ---------------------------------------------------------------------

OVERLOADED = {"status": 529, "times": 2, "retry_after_ms": 5}


@scenario([{"error": OVERLOADED, "text": "at last"}])
async def a_provider_that_comes_back(player: Player) -> None:
    """PROV-03, PROV-04: two retries, one turn."""
    await player.start(prompt="go", behavior={"retry": NO_WAIT})
    played = await ended(player)
    assert played.texts == ["user: go", "assistant: at last"]


@scenario([{"error": {**OVERLOADED, "times": 1, "after_chars": 4}, "text": "half whole"}])
async def a_stream_that_breaks_off(player: Player) -> None:
    """CTL-11, K-TEMPORAL-08: the half is an aborted turn, the whole is on the path."""
    await player.start(prompt="go", behavior={"retry": NO_WAIT})
    played = await ended(player)
    assert played.texts == ["user: go", "assistant: half whole"]
    stored = await player.store.turns_of_run(player.run_ids[0])
    assert [turn.text for turn in stored if turn.aborted] == ["half"]


@scenario([{"text": "from the second"}, {"text": "again from it"}])
async def a_second_target(player: Player) -> None:
    """PROV-10: the run stays there; only the next run starts from the first."""
    player.write("bad.yaml", [{"error": {"kind": "auth", "times": 99}}] * 2)
    await player.start(prompt="go", model=["scripted:HERE/bad.yaml", "scripted:HERE/script.yaml"])
    played = await ended(player)
    assert played.texts[-1] == "assistant: from the second"
    events = await player.store.events_after(player.session_id, 0)
    assert [event.name for event in events].count("model:fallback") == 1


@scenario([{"error": {"kind": "auth", "times": 1}, "text": "with the new key"}])
async def a_run_parked_until_the_key_is_mended(player: Player) -> None:
    """PROV-05, design 3: parked with its reason, `resume` goes on."""
    await player.start(prompt="go")
    status = await player.phase(Phase.PARKED)
    assert status["reason"]
    await player.send("resume")
    played = await ended(player)
    assert played.texts[-1] == "assistant: with the new key"


@scenario([{"error": {"kind": "quota", "times": 9}, "text": "never"}])
async def an_abort_while_parked(player: Player) -> None:
    """CTL-09."""
    await player.start(prompt="go")
    await player.phase(Phase.PARKED)
    await player.send("abort")
    played = await ended(player, "aborted")
    assert played.texts == ["user: go"]


@scenario([{"error": {"kind": "auth", "times": 9}, "text": "never"}])
async def a_run_that_is_to_fail(player: Player) -> None:
    """PROV-05, ERR-06."""
    await player.start(prompt="go", on_provider_failure="fail")
    played = await ended(player, "error")
    error: Any = played.results[0]["error"]
    assert error["type"] == "AgentProviderError"


def _list(value: Any) -> list[Any]:
    return value
