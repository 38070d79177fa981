"""What a fault injector that others wrote says of us as a client."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activities.dependencies import Dependencies, agents_by_name
from activities.inline import InlineRuntime, SystemClock
from activities.providers.registry import Providers
from activities.store import open_store
from tests.support.third_party import Unavailable, ask, llmock
from zidane_core import Agent, tool
from zidane_core.runs import RunRequest

pytestmark = pytest.mark.xdist_group("third-party")


@pytest.fixture(scope="module")
def mock() -> Iterator[str]:
    """The server, shared by the tests of this file."""
    try:
        with llmock() as url:
            yield url
    except Unavailable as reason:
        pytest.skip(f"llmock cannot be had: {reason}")


@tool(read_only=True)
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return f"{a + b}"


FAULTS: list[dict[str, Any]] = [
    {"type": "fail", "status": 429, "retry_after": 1, "times": 1},
    {"type": "stream_fault", "kind": "truncate", "after_chunks": 2},
    {"type": "stream_fault", "kind": "disconnect", "after_chunks": 2},
    {"type": "stream_fault", "kind": "malformed", "after_chunks": 2},
    {"type": "stream_fault", "kind": "stall", "after_chunks": 2, "stall_seconds": 30},
]


class EvenJitter(SystemClock):
    """Full jitter may draw a delay of nearly nothing, which looks like no backoff at all."""

    def random(self) -> float:
        return 0.9


@pytest.mark.parametrize("model", ["anthropic:claude-sonnet-5-5", "openai:gpt-5"])
async def test_an_injector_of_faults_finds_no_fault_with_us(mock: str, tmp_path: Path, model: str):
    """PROV-03, PROV-04, PROV-05, PROV-08, PROV-16."""
    await asyncio.to_thread(ask, f"{mock}/_llmock/reset", {})
    await asyncio.to_thread(ask, f"{mock}/_llmock/scenario", {"behaviors": FAULTS})
    retry = {"max_attempts": 8, "initial_delay_ms": 200, "max_delay_ms": 2000}
    text = await said(mock, tmp_path, model, retry)
    assert "everything is working" in text
    verdict = await asyncio.to_thread(ask, f"{mock}/_llmock/verdict")
    assert verdict["passed"], verdict
    assert verdict["errors"] == 0
    assert verdict["faults_injected"] == len(FAULTS)
    # A try again for each fault, the call of the tool, and the answer to its result. (A try long
    # after a malformed event it counts as another call, and warns that the event was ignored.)
    assert verdict["attempts"] == len(FAULTS) + 2
    assert {each["code"] for each in verdict["findings"]} <= {"malformed_chunk_ignored"}


async def said(mock: str, folder: Path, model: str, retry: dict[str, int]) -> str:
    """Run an agent to its end; returns its text."""
    store = await open_store(f"sqlite:///{folder / 'verdict.db'}")
    environ = {
        "ANTHROPIC_API_KEY": "k1",
        "ANTHROPIC_BASE_URL": f"{mock}/anthropic",
        "OPENAI_API_KEY": "k2",
        "OPENAI_BASE_URL": f"{mock}/v1",
    }
    providers = Providers(environ=environ)
    agent = Agent("tester", tools=[add])
    deps = Dependencies(store=store, providers=providers, agents=agents_by_name([agent]))
    request = RunRequest(
        agent="tester",
        prompt="go",
        model=model,
        workspace=f"{folder}",
        behavior={"retry": {**retry}, "provider_stream_idle_timeout_ms": 500},
    )
    try:
        return (await InlineRuntime(deps, request, clock=EvenJitter()).run()).text
    finally:
        await providers.close()
        await store.close()
