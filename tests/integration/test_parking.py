"""An unattended run outlives an expired key and a long outage: it parks, says why, and goes on.

Real commands and a real worker process; the model service is a fake in the test's process.
"""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, ended
from tests.support.crash_rig import until
from tests.support.fake_llm import (
    FakeLLM,
    Reply,
    Request,
    anthropic_events,
    anthropic_turn,
    json_error,
)
from tests.support.server import queue_of
from zidane_client.embedded import EmbeddedServer

pytestmark = pytest.mark.server

MODEL = "anthropic:claude-sonnet-5-5"
OLD_KEY, NEW_KEY = "sk-ant-expired-000000", "sk-ant-renewed-111111"
OVERLOAD = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
DENIED = {
    "type": "error",
    "error": {"type": "authentication_error", "message": "invalid x-api-key"},
}


@dataclass
class Service:
    """Plays a conversation of so many turns; `trouble` may answer in its place."""

    turns: int
    sold: Counter[int] = field(default_factory=Counter[int])
    refused: Counter[int] = field(default_factory=Counter[int])
    accepted_keys: set[str] = field(default_factory=lambda: {OLD_KEY, NEW_KEY})
    outage_at: int | None = None

    def answer(self, request: Request) -> Reply:
        turn = sum(message["role"] == "assistant" for message in request.body["messages"])
        headers = json.dumps(dict(request.headers))
        if not any(key in headers for key in self.accepted_keys):
            self.refused[turn] += 1
            return json_error(401, DENIED)
        if turn == self.outage_at:
            self.refused[turn] += 1
            # One attempt meets the overload in the stream, the next one as a status.
            in_stream = anthropic_events(*_started(turn), OVERLOAD)
            return in_stream if self.refused[turn] % 2 else json_error(529, OVERLOAD)
        self.sold[turn] += 1
        said = {"type": "text", "text": f"Turn {turn + 1}."}
        if turn == self.turns - 1:
            return anthropic_turn(said, model="claude-sonnet-5-5")
        asked = {"command": f"echo {turn + 1} >> taken.txt"}
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "shell", "input": asked}
        # The key expires while the run is at work.
        if turn == 1:
            self.accepted_keys.discard(OLD_KEY)
        return anthropic_turn(said, call, stop_reason="tool_use", model="claude-sonnet-5-5")


def _started(turn: int) -> list[dict[str, Any]]:
    events = anthropic_turn({"type": "text", "text": f"Turn {turn + 1} is cut"}).body.split(b"\n\n")
    return [json.loads(event.partition(b"data: ")[2]) for event in events[:3]]


@pytest.fixture
def cli(server: EmbeddedServer, tmp_path: Path) -> Cli:
    """Commands of one test: own folder, queue and store, the shared server, no key."""
    settings = {"ZIDANE_STORE": f"sqlite:///{tmp_path / 'store' / 'zidane.db'}"}
    folder = tmp_path / "work"
    folder.mkdir()
    return Cli(folder, server.home, f"{queue_of('parking')}-{tmp_path.name}", settings)


@asynccontextmanager
async def worker(cli: Cli, llm: FakeLLM, key: str) -> AsyncGenerator[None]:
    """A worker process with a key of its own, drained at the end."""
    process = await cli.start(
        "worker", more={"ANTHROPIC_API_KEY": key, "ANTHROPIC_BASE_URL": llm.url}
    )
    assert process.stderr is not None
    async with asyncio.timeout(60):
        assert b"Worker for" in await process.stderr.readline()
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert (await ended(process)).code == 0


async def parked(cli: Cli, session: str) -> dict[str, Any]:
    """What `ps` says of the run once it is parked."""

    async def row() -> dict[str, Any] | None:
        rows = (await cli("ps", "--json")).json
        return next(
            (r for r in rows if r["session_id"] == session and r["phase"] == "parked"), None
        )

    return await until("a parked run", row)


def taken(cli: Cli) -> list[str]:
    return (cli.folder / "taken.txt").read_text().split()


async def test_an_expired_key_parks_the_run_and_a_new_key_and_resume_bring_it_home(cli: Cli):
    """PROV-05, ERR-07: 401 at turn 3; turns 1 and 2 are neither lost nor bought again."""
    service = Service(turns=4)
    async with FakeLLM() as llm:
        llm.otherwise = service.answer
        async with worker(cli, llm, OLD_KEY):
            run = await cli("run", "basic", "go", "-m", MODEL, "-s", "keyed", "-d", "--json")
            assert run.code == 0, run.err
            row = await parked(cli, "keyed")
            shown = await cli("ps", COLUMNS="200")
        said = (
            "Anthropic refused the API key (HTTP 401). Check the key in the worker's environment."
        )
        assert row["reason"] == said
        assert said in shown.out
        assert row["turns"] == 2
        spent = row["cost"]
        assert spent > 0
        assert service.refused == {2: 1}
        async with worker(cli, llm, NEW_KEY):
            assert (await cli("resume", "keyed")).code == 0
            done = await cli("watch", "keyed", "--json")
    assert done.code == 0, done.err
    assert done.json["text"] == "Turn 4."
    assert done.json["stats"]["turns"] == 4
    assert done.json["stats"]["cost"] == pytest.approx(2 * spent)
    assert service.sold == {0: 1, 1: 1, 2: 1, 3: 1}
    assert taken(cli) == ["1", "2", "3"]


async def test_an_overload_longer_than_all_retries_keeps_nine_turns_and_their_cost(cli: Cli):
    """K-ANTHROPIC-10, PROV-03, PROV-05: in the stream and as 529; later `resume` makes turn ten."""
    service = Service(turns=10, outage_at=9)
    service.accepted_keys = {NEW_KEY}
    retry = 'behavior.retry={"max_attempts":4,"initial_delay_ms":1,"max_delay_ms":5}'
    async with FakeLLM() as llm, worker(cli, llm, NEW_KEY):
        llm.otherwise = service.answer
        asked = ("basic", "go", "-m", MODEL, "-s", "long", "-d", "--set", retry, "--json")
        assert (await cli("run", *asked)).code == 0
        row = await parked(cli, "long")
        assert row["reason"] in ("Anthropic is overloaded.", "Anthropic is overloaded (HTTP 529).")
        assert row["turns"] == 9
        assert service.refused == {9: 4}
        service.outage_at = None
        assert (await cli("resume", "long")).code == 0
        done = await cli("watch", "long", "--json")
    assert done.code == 0, done.err
    assert done.json["text"] == "Turn 10."
    assert done.json["stats"]["turns"] == 10
    assert done.json["stats"]["cost"] == pytest.approx(row["cost"] / 9 * 10)
    assert service.sold == dict.fromkeys(range(10), 1)
    assert taken(cli) == [str(turn) for turn in range(1, 10)]
