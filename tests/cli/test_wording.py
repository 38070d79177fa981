"""Numbers, times and ids as people read them."""

from typing import Any

import pytest

from zidane_client.cli import wording
from zidane_client.cli.agents import load_agents
from zidane_client.cli.event_lines import line_of
from zidane_client.cli.start_command import parse_settings
from zidane_core import Agent
from zidane_core.errors import InvalidRequestError, UsageError
from zidane_core.events import EventName, RunEvent
from zidane_core.usage import AgentStats

MINE = [Agent("basic"), Agent("other")]


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_900, "60 s"),
        (61_000, "1 min 01 s"),
        (7_200_000, "2 h 00 min"),
        (90_000_000, "1 d 1 h"),
        (None, ""),
    ],
)
def test_durations(ms: int | None, said: str):
    assert wording.duration(ms) == said


def test_a_models_words_cannot_drive_the_terminal():
    assert wording.plain("a\x1b[2Jb\x07\tc\r\nd\x9b") == "a[2Jb    c\nd"


def test_ids_are_as_short_as_they_are_unique():
    ids = ["11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa", "11111111-abaa-4aaa-8aaa-aaaaaaaaaaaa", "mine"]
    assert wording.short_ids(ids) == {
        ids[0]: "11111111-aa",
        ids[1]: "11111111-ab",
        "mine": "mine",
    }


def test_a_lines_of_stats_leaves_out_what_is_not_known():
    assert wording.stats_line(AgentStats(turns=1, total_in=1200, total_out=5)) == (
        "1 turn · 1,200 tokens in · 5 out"
    )


def test_settings_are_json_else_text_and_nest():
    settings = ["behavior.max_turns=5", "behavior.retry.max_attempts=2", "behavior.x=plain"]
    assert parse_settings(settings) == {"max_turns": 5, "retry": {"max_attempts": 2}, "x": "plain"}
    for bad in ("max_turns=5", "behavior.=5", "behavior.a", "behavior.x.=1"):
        with pytest.raises(InvalidRequestError, match="takes behavior"):
            parse_settings([bad])


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("tests.cli.mine_missing:a", "was not found"),
        ("tests.cli.test_wording:none", "has no 'none'"),
        ("tests.cli.test_wording:pytest", "no Agent"),
        ("tests.cli.test_wording", "module:object"),
    ],
)
def test_a_place_without_an_agent_is_refused(place: str, says: str):
    with pytest.raises(UsageError, match=says):
        load_agents([place])


def test_basic_is_always_there_unless_an_author_has_one():
    assert [agent.name for agent in load_agents([])] == ["basic"]
    mine = load_agents(["tests.cli.test_wording:MINE"])
    assert [agent.name for agent in mine] == ["basic", "other"]
    assert mine == MINE


def event(name: EventName, **fields: Any) -> RunEvent:
    return RunEvent(run_id="r", session_id="s", name=name, fields=fields)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (
            event("stream:retry", message="It is overloaded.", delay_ms=1500),
            "↻ It is overloaded. Tries again in 1.5 s.",
        ),
        (
            event("history:repair", message="Refused.", kind="thinking", level=1),
            "↻ Refused. Goes on without earlier reasoning.",
        ),
        (
            event("context:compacted", message="Too long.", kind="long", level=2),
            "↻ Too long. Older texts are cut short.",
        ),
        (event("output:rejected", reason="n: no."), "✗ answer refused: n: no."),
        (event("thinking:overrun", tokens=900), "→ nudged after 900 reasoning tokens"),
    ],
)
def test_a_watcher_reads_what_the_loop_decided_and_why(seen: RunEvent, said: str):
    """NUDGE-10, LOOP-14, OUT-02, HOOK-29."""
    line = line_of(seen)
    assert line is not None
    assert line[0] == said


def test_an_event_that_nobody_needs_to_read_has_no_line():
    assert line_of(event("turn:started")) is None


def test_a_cut_answer_says_so():
    """K-ANTHROPIC-05."""
    assert wording.ended_because("length") == "cut off: the answer reached the output limit"
    assert "'other'" in wording.ended_because("other")
