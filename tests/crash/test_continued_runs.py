"""A long run that goes on in fresh histories is killed on the way."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.crash_rig import Rig, rig_on
from zidane_client.embedded import embedded_server

pytestmark = pytest.mark.crash

CALLS = 5


@pytest.fixture
async def short(tmp_path: Path) -> AsyncIterator[Rig]:
    """A rig whose server wants a fresh history every few turns."""
    limit = {"limit.historyCount.suggestContinueAsNew": 20}
    async with (
        embedded_server(tmp_path / "home", idle_s=1, dynamic_config=limit) as server,
        rig_on(server, tmp_path / "rig") as rig,
    ):
        yield rig


async def test_a_continued_run_keeps_its_queue_state_and_counts_across_a_kill(short: Rig) -> None:
    """DUR-02, DUR-06, K-TEMPORAL-03."""
    calls = [{"text": [f"{n}"], "calls": [["charge", f"item {n}"]]} for n in range(CALLS)]
    run = short.run([*calls, {"text": ["last"]}, {"text": ["more"]}])
    run.arm("turn 1 piece 1")
    run.arm("turn 4 piece 1")
    await run.start()
    first = short.worker("a")
    await run.reached("turn 1 piece 1")
    await run.handle.signal("follow_up", {"prompt": "go on", "id": "m1"})
    run.release("turn 1 piece 1")
    await run.reached("turn 4 piece 1")
    description = await run.handle.describe()
    assert description.run_id != description.raw_description.workflow_execution_info.first_run_id
    first.kill()
    short.worker("b")
    await run.handle.signal("follow_up", {"prompt": "go on", "id": "m1"})
    result = await run.result()
    assert (result["status"], result["text"]) == ("completed", "more")
    assert [request["turn"] for request in run.requests()] == [1, 2, 3, 4, 4, 5, 6, 7]
    assert run.bodies("charge") == CALLS
    assert [text for role, text in await run.conversation() if role == "user"] == [
        "go",
        *(f"charge item {n}: done by {'a' if n < 3 else 'b'}" for n in range(CALLS)),
        "go on",
    ]
    assert len(await run.handle.query("tool_state")) == CALLS
    assert result["stats"]["turns"] == CALLS + 2
