"""Thirty turns with a provider that fails in a random way at every call, and nothing to see of it.

What is random is seeded; the same seeds run each time.
"""

from pathlib import Path
from typing import Any

import pytest

from activities.dependencies import Dependencies, agents_by_name
from activities.inline import InlineRuntime
from activities.providers.registry import Providers
from activities.store import open_store
from tests.support.canonical import canonical_session
from tests.support.fake_llm import FakeLLM
from tests.support.flaky_llm import FAULTS, Dialect, Fault, FlakyLLM, plan_faults
from zidane_core import Agent, tool
from zidane_core.runs import RunRequest
from zidane_core.usage import AgentStats
from zidane_core.values import Json

TURNS = 30
MODELS: dict[Dialect, str] = {"anthropic": "anthropic:claude-sonnet-5-5", "chat": "openai:gpt-5"}
BEHAVIOR: dict[str, Any] = {
    "retry": {"max_attempts": 3, "initial_delay_ms": 1, "max_delay_ms": 5},
    "provider_stream_idle_timeout_ms": 400,
}
LIVE = {"elapsed", "time_till_first_token_ms", "stream_duration_ms", "time_to_first_token_ms"}


class Played:
    """One run and what came of it."""

    def __init__(self, llm: FlakyLLM, session: Json, stats: AgentStats, bodies: list[int]) -> None:
        self.llm = llm
        self.session = session
        self.stats = _without_times(stats.packed())
        self.bodies = bodies


def _without_times(stats: Any) -> Any:
    if isinstance(stats, dict):
        return {k: _without_times(v) for k, v in stats.items() if k not in LIVE}  # pyright: ignore[reportUnknownVariableType] -- any JSON
    if isinstance(stats, list):
        return [_without_times(each) for each in stats]  # pyright: ignore[reportUnknownVariableType] -- any JSON
    return stats


async def played(folder: Path, dialect: Dialect, faults: list[list[Fault]]) -> Played:
    """Run the conversation on a store of its own."""
    folder.mkdir()  # noqa: ASYNC240 -- one folder, before anything runs
    bodies: list[int] = []

    @tool(idempotent=False)
    async def step(n: int) -> str:
        """Take a step."""
        bodies.append(n)
        return f"step {n} taken"

    flaky = FlakyLLM(dialect, TURNS, faults)
    store = await open_store(f"sqlite:///{folder / 'chaos.db'}")
    async with FakeLLM() as llm:
        llm.otherwise = flaky.answer
        environ = {
            "ANTHROPIC_API_KEY": "k1",
            "ANTHROPIC_BASE_URL": llm.url,
            "OPENAI_API_KEY": "k2",
            "OPENAI_BASE_URL": llm.openai_url,
        }
        providers = Providers(environ=environ)
        agent = Agent("walker", tools=[step])
        deps = Dependencies(store=store, providers=providers, agents=agents_by_name([agent]))
        request = RunRequest(
            agent="walker",
            prompt="Walk.",
            model=MODELS[dialect],
            workspace=str(folder),
            behavior=BEHAVIOR,
            model_options={"api": "chat"},
        )
        runtime = InlineRuntime(deps, request)
        try:
            result = await runtime.run()
            session = await canonical_session(store, runtime.session_id, folder)
        finally:
            await providers.close()
            await store.close()
    assert result.status == "completed"
    assert result.text == f"Turn {TURNS - 1}."
    return Played(flaky, session, result.stats, bodies)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dialect", ["anthropic", "chat"])
async def test_a_provider_that_fails_at_every_call_leaves_no_trace_in_the_run(
    tmp_path: Path, dialect: Dialect, seed: int
):
    """PROV-03, PROV-05, PROV-08, PROV-16, USE-05, K-ANTHROPIC-01, K-OPENAI-10.

    One transcript, each answer bought once, each tool run once, the same stats.
    """
    faults = plan_faults(seed, TURNS)
    assert sum(map(len, faults)) >= TURNS // 2
    calm = await played(tmp_path / "calm", dialect, [])
    wild = await played(tmp_path / "wild", dialect, faults)
    assert wild.session == calm.session
    assert wild.stats == calm.stats
    assert wild.bodies == calm.bodies == list(range(TURNS - 1))
    assert wild.llm.sold == calm.llm.sold == dict.fromkeys(range(TURNS), 1)
    assert [wild.llm.failed[turn] for turn in range(TURNS)] == [len(each) for each in faults]


def test_the_seeds_together_hold_every_fault():
    seen = {fault for seed in range(5) for each in plan_faults(seed, TURNS) for fault in each}
    assert seen == set(FAULTS)
