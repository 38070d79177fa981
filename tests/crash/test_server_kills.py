"""The Temporal server is killed in mid-run and comes back on its database."""

import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.crash_rig import INTERRUPTED, Rig, rig_on, until
from zidane_client.embedded import EmbeddedServer, embedded_server, server_status

pytestmark = pytest.mark.crash

PLAN = [{"text": ["fi", "rst"], "calls": [["charge", "a"]]}, {"text": ["second"]}]


@dataclass
class ServerRig:
    """A rig with a server of its own, which is started again whenever it is gone."""

    rig: Rig
    server: EmbeddedServer

    async def kill_server(self) -> None:
        """SIGKILL the server and wait for the next one."""
        os.kill(self.server.pid, signal.SIGKILL)

        def started() -> EmbeddedServer | None:
            now = server_status(self.server.home)
            return now if now is not None and now.pid != self.server.pid else None

        now = await until("the next server", started)
        assert now.address == self.server.address
        self.server = now


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[ServerRig]:
    """A rig whose server may be killed."""
    async with (
        embedded_server(tmp_path / "home", idle_s=1) as server,
        rig_on(server, tmp_path / "rig") as rig,
    ):
        yield ServerRig(rig, server)


async def test_a_killed_server_repeats_neither_a_stream_nor_a_call(own: ServerRig) -> None:
    """DUR-02: the worker lives on and reports to the server that comes back."""
    streaming, calling = own.rig.run(PLAN), own.rig.run(PLAN)
    streaming.arm("turn 1 piece 1")
    calling.arm("in charge a 1")
    await streaming.start()
    await calling.start()
    own.rig.worker("a")
    await streaming.reached("turn 1 piece 1")
    await calling.reached("in charge a 1")
    await own.kill_server()
    streaming.release("turn 1 piece 1")
    calling.release("in charge a 1")
    for run in (streaming, calling):
        assert (await run.result())["text"] == "second"
        assert [request["turn"] for request in run.requests()] == [1, 2]
        assert run.bodies("charge") == 1
        assert run.requests(turn=2)[0]["sent"][-1] == "charge a: done by a"


async def test_server_and_worker_killed_together_lose_nothing(own: ServerRig) -> None:
    """DUR-02."""
    streaming, calling = own.rig.run(PLAN), own.rig.run(PLAN)
    streaming.arm("turn 1 piece 1")
    calling.arm("in charge a 1")
    await streaming.start()
    await calling.start()
    first = own.rig.worker("a")
    await streaming.reached("turn 1 piece 1")
    await calling.reached("in charge a 1")
    await streaming.handle.signal("pause", {"mode": "return"})
    first.kill()
    await own.kill_server()
    own.rig.worker("b")
    assert (await calling.result())["status"] == "completed"
    assert calling.bodies("charge") == 1
    assert calling.requests(turn=2)[0]["sent"][-1] == INTERRUPTED
    assert (await streaming.result())["status"] == "paused"
    assert [request["turn"] for request in streaming.requests()] == [1, 1]
    assert streaming.bodies("charge") == 1


async def test_a_parked_run_outlives_its_worker_and_the_server(own: ServerRig) -> None:
    """DUR-02, DUR-10, PROV-10."""
    error = {"kind": "auth", "message": "The key is not valid."}
    run = own.rig.run([{"text": ["done"], "errors": 1, "error": error}])
    await run.start()
    first = own.rig.worker("a")
    parked = await run.phase("parked")
    first.kill()
    await own.kill_server()
    own.rig.worker("b")
    after = await run.phase("parked")
    assert after["reason"] == parked["reason"] == "The key is not valid."
    assert len(run.requests()) == 1
    await run.handle.signal("resume")
    assert (await run.result())["text"] == "done"
    assert [request["attempt"] for request in run.requests()] == [1, 2]
