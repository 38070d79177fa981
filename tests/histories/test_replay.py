"""The recorded corpus replays against today's code; a changed history does not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.workflow import NondeterminismError

from tests.histories.record import CONTINUED, CORPUS
from tests.support.server import replay

HERE = Path(__file__).parent
RECORDED = sorted(HERE.glob("*.json"))


def history(name: str, change: Callable[[list[Any]], None] | None = None) -> WorkflowHistory:
    packed = json.loads((HERE / f"{name}.json").read_text())
    if change is not None:
        change(packed["events"])
    return WorkflowHistory.from_json(f"zidane-{_session_id(packed)}", packed)


def _session_id(packed: Any) -> str:
    started = packed["events"][0]["workflowExecutionStartedEventAttributes"]
    return started["workflowId"].removeprefix("zidane-")


def test_the_corpus_is_complete():
    assert [path.stem for path in RECORDED] == sorted([*CORPUS, CONTINUED])


async def test_every_recorded_history_replays():
    """DUR-09, DUR-11, CLK-06: a failure here needs a patch in the workflow, not a new file."""
    assert RECORDED
    await replay(*(history(path.stem) for path in RECORDED))


def _another_activity(events: list[Any]) -> None:
    scheduled = [e for e in events if "activityTaskScheduledEventAttributes" in e]
    scheduled[1]["activityTaskScheduledEventAttributes"]["activityType"]["name"] = "other"


def _another_id(events: list[Any]) -> None:
    scheduled = [e for e in events if "activityTaskScheduledEventAttributes" in e]
    scheduled[1]["activityTaskScheduledEventAttributes"]["activityId"] = "turn-1-other-1"


@pytest.mark.parametrize("change", [_another_activity, _another_id])
async def test_a_changed_history_fails_the_replay(change: Callable[[list[Any]], None]):
    """DUR-09: the corpus can fail."""
    with pytest.raises(NondeterminismError):
        await replay(history("tools_in_parallel", change))
