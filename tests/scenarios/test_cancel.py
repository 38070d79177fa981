"""Stops reach what runs: commands, silent streams, and Temporal's own cancellation."""

import asyncio
import os
import time
from pathlib import Path

import psutil
import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import CancelledError

from activities.store import Store
from tests.scenarios.book import GATED, call, gated
from tests.support.gates import until_file
from tests.support.players import TemporalPlayer
from zidane_core.tools import CANCELLED_RESULT

pytestmark = [pytest.mark.server, pytest.mark.asyncio(loop_scope="session")]

LIMIT_S = 15.0


def sleepers(mark: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline"]):
        if mark in (process.info["cmdline"] or []):
            found.append(process)
    return found


async def test_a_cancelled_run_leaves_no_command_behind(
    client: Client, scene_queue: str, scene_store: Store, tmp_path: Path
):
    """K-TEMPORAL-14: Temporal's cancellation, within 15 s, with a valid transcript."""
    mark = f"6{os.getpid()}"
    command = f"touch began; sleep {mark} & sleep {mark}"
    script = [{"tool_calls": [call("shell", "a", command=command), *gated("hold", "b")]}]
    player = TemporalPlayer(client, scene_queue, scene_store, tmp_path / "s", script)
    await player.start(prompt="go")
    await until_file(player.folder / "ws" / "began")
    began = time.monotonic()
    await player.handle.cancel()
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(player.handle.result(), LIMIT_S)
    assert isinstance(caught.value.cause, CancelledError)
    assert time.monotonic() - began < LIMIT_S
    assert sleepers(mark) == []
    played = await player.played()
    assert played.results_of_calls == {"a": CANCELLED_RESULT, "b": CANCELLED_RESULT}
    record = await scene_store.run(player.run_ids[0])
    assert record is not None
    assert record.status == "aborted"


async def test_an_abort_ends_a_silent_stream(
    client: Client, scene_queue: str, scene_store: Store, tmp_path: Path
):
    """K-TEMPORAL-14: while the model says nothing; with a heartbeat of its own, within 15 s."""
    script = [{"text": "<gate never>"}]
    player = TemporalPlayer(client, scene_queue, scene_store, tmp_path / "s", script)
    await player.start(prompt="go", model=GATED)
    await player.reached("never")
    await player.send("abort")
    result = await asyncio.wait_for(player.result(), LIMIT_S)
    assert result["status"] == "aborted"
