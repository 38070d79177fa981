"""What a turn costs in history: the same however much the model and its tools say."""

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHistory

from activities.store import Store
from tests.scenarios.book import call
from tests.support.histories import chain, size_bytes
from tests.support.players import TemporalPlayer
from zidane_client import ZidaneClient
from zidane_client.following import Piece, Voided

pytestmark = [pytest.mark.server, pytest.mark.asyncio(loop_scope="session")]

TURNS = 12


def script_of(tool: dict[str, Any], text: str) -> list[dict[str, Any]]:
    return [
        {"text": text, "chunk_chars": 1, "tool_calls": [{**tool, "id": f"c{n}"}]}
        for n in range(TURNS)
    ]


LONG = script_of(call("big", "", lines=220), "x" * 400)
SHORT = script_of(call("big", "", lines=0), "x")
QUICK = script_of(call("glance", "", text="x"), "x" * 400)


@pytest.mark.parametrize(
    ("script", "max_events", "max_bytes"),
    [(LONG, 12.0, 3072), (SHORT, 12.0, 3072), (QUICK, 8.0, 3072)],
    ids=["20 KB a call", "nothing a call", "a quick tool"],
)
async def test_a_turn_costs_a_bounded_number_of_events_and_bytes(
    script: list[dict[str, Any]],
    max_events: float,
    max_bytes: int,
    client: Client,
    scene_queue: str,
    scene_store: Store,
    tmp_path: Path,
):
    """K-TEMPORAL-12, DUR-07: 400 deltas and 20 KB of output a turn leave no trace."""
    history = await history_of(script, client, scene_queue, scene_store, tmp_path)
    # The first eleven events set the run up and end it.
    assert (len(history.events) - 11) / (TURNS + 1) <= max_events
    assert size_bytes(history) / (TURNS + 1) <= max_bytes


WATCHED_TURNS = 100


async def test_a_hundred_turns_are_watched_without_a_gap_or_a_repeat(
    client: Client, scene_queue: str, scene_store: Store, tmp_path: Path
):
    """K-TEMPORAL-12: 400 deltas and two calls of 20 KB a turn, across continue-as-new."""
    script = [
        {
            "text": f"{n} " + "x" * 400,
            "chunk_chars": 1,
            "tool_calls": [call("big", f"{part}{n}", lines=220) for part in "ab"],
        }
        for n in range(WATCHED_TURNS)
    ]
    player = TemporalPlayer(client, scene_queue, scene_store, tmp_path / "s", script)
    await player.start(prompt="go", stream=True)
    watched = ZidaneClient(client, store=scene_store, task_queue=scene_queue)
    seen: dict[str, str] = defaultdict(str)

    async def watch() -> None:
        run = await watched.handle(player.session_id)
        async for shown in run.follow():
            if isinstance(shown, Piece) and shown.kind == "text":
                seen[shown.turn_id] += shown.text
            elif isinstance(shown, Voided):
                del seen[shown.turn_id]

    watching = asyncio.create_task(watch())
    assert (await player.result())["status"] == "completed"
    await watching
    stored = await scene_store.turns_of_run(player.run_ids[0])
    assert dict(seen) == {
        turn.id: turn.text for turn in stored if turn.role == "assistant" and turn.text
    }
    histories = await chain(client, player.handle)
    assert len(histories) > 1
    events = sum(len(history.events) for history in histories)
    # Six an activity: a model call and two tool calls a turn.
    assert events <= 6 * 3 * (WATCHED_TURNS + 2)
    assert max(len(history.events) for history in histories) < 1_100


async def history_of(
    script: list[dict[str, Any]], client: Client, queue: str, store: Store, folder: Path
) -> WorkflowHistory:
    player = TemporalPlayer(client, queue, store, folder / "s", script)
    await player.start(prompt="go", stream=True)
    assert (await player.result())["status"] == "completed"
    (history,) = await chain(client, player.handle)
    return history
