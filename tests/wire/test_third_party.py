"""Whole agent loops against model services that others wrote, on three wires."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from activities.dependencies import Dependencies, agents_by_name
from activities.inline import InlineRuntime
from activities.providers.registry import Providers
from activities.store import open_store
from tests.support.third_party import Unavailable, aimock, ask
from zidane_core import Agent, tool
from zidane_core.runs import RunRequest, RunResult
from zidane_core.session import Turn

pytestmark = pytest.mark.xdist_group("third-party")

FIXTURES = Path(__file__).parent.parent / "fixtures" / "aimock" / "loops.json"
RETRY = {"max_attempts": 3, "initial_delay_ms": 1, "max_delay_ms": 20}
WIRES: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": ("anthropic:claude-sonnet-4-5", {}),
    "chat": ("openai:gpt-5", {"api": "chat"}),
    "responses": ("openai:gpt-5", {"api": "responses"}),
}
every_wire = pytest.mark.parametrize("wire", WIRES)


@pytest.fixture(scope="session")
def mock() -> Iterator[str]:
    """The server, shared by all tests of this file."""
    try:
        with aimock(FIXTURES) as url:
            yield url
    except Unavailable as reason:
        pytest.skip(f"aimock cannot be had: {reason}")


@tool(read_only=True)
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return f"sum: {a + b}"


@dataclass(frozen=True)
class Ran:
    """A run, its conversation and what the server got (in a form of its own)."""

    result: RunResult
    path: tuple[Turn, ...]
    bodies: list[dict[str, Any]]

    @property
    def ends(self) -> list[str | None]:
        """Finish reasons of the assistant turns."""
        return [turn.usage.finish_reason for turn in self.path if turn.usage is not None]


async def ran(url: str, folder: Path, wire: str, prompt: str, **request: Any) -> Ran:
    """Run an agent to its end."""
    model, options = WIRES[wire]
    store = await open_store(f"sqlite:///{folder / 'third.db'}")
    environ = {
        "ANTHROPIC_API_KEY": "k1",
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_API_KEY": "k2",
        "OPENAI_BASE_URL": f"{url}/v1",
    }
    providers = Providers(environ=environ)
    agent = Agent("tester", tools=[add])
    deps = Dependencies(store=store, providers=providers, agents=agents_by_name([agent]))
    asked = RunRequest.model_validate(
        {
            "agent": "tester",
            "prompt": prompt,
            "model": model,
            "workspace": f"{folder}",
            "model_options": options,
            **request,
            "behavior": {"retry": RETRY, **request.get("behavior", {})},
        }
    )
    await asyncio.to_thread(ask, f"{url}/__aimock/reset/journal", {})
    runtime = InlineRuntime(deps, asked)
    try:
        result = await runtime.run()
        path = await store.path(runtime.session_id, await store.session_head(runtime.session_id))
    finally:
        await providers.close()
        await store.close()
    journal = await asyncio.to_thread(ask, f"{url}/__aimock/journal")
    return Ran(result, tuple(path), [entry["body"] for entry in journal])


@every_wire
async def test_a_text_answer(mock: str, tmp_path: Path, wire: str):
    """PROV-01, PROV-13."""
    run = await ran(mock, tmp_path, wire, "say hello")
    assert (run.result.status, run.result.text, run.ends) == ("completed", "Hello there.", ["stop"])


@every_wire
async def test_a_loop_with_a_tool(mock: str, tmp_path: Path, wire: str):
    """LOOP-01, LOOP-05, PROV-13: the result reaches the model next to its call."""
    run = await ran(mock, tmp_path, wire, "add two numbers")
    assert run.result.text == "It is 5."
    assert run.ends == ["tool-calls", "stop"]
    assert [turn.tool_results[0].output for turn in run.path if turn.tool_results] == ["sum: 5"]
    assert len(run.bodies) == 2


async def test_signed_reasoning_goes_back_with_its_tool_call(mock: str, tmp_path: Path):
    """PROV-13: the server is strict, and refuses a loop without it."""
    behavior = {"thinking_budget": 2048}
    run = await ran(mock, tmp_path, "anthropic", "think first", thinking="high", behavior=behavior)
    assert run.result.text == "Five, I think."
    thoughts = [block for turn in run.path for block in turn.content if block.type == "thinking"]
    assert [thought.signature for thought in thoughts] == ["sig-aimock-1"]
    assert len(run.bodies) == 2


async def test_the_server_does_refuse_a_loop_without_its_reasoning(mock: str):
    """What the test above rests on."""
    call: Any = {"type": "tool_use", "id": "call_add", "name": "add", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "call_add", "content": "sum: 5"}
    body: Any = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 4096,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "messages": [
            {"role": "user", "content": "think first"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ],
    }
    with pytest.raises(HTTPError) as refused:
        await asyncio.to_thread(ask, f"{mock}/v1/messages", body)
    refused.value.close()
    assert refused.value.code == 400


@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_reasoning_of_other_wires_does_not_stop_a_loop(mock: str, tmp_path: Path, wire: str):
    """PROV-13."""
    run = await ran(mock, tmp_path, wire, "think first", thinking="high")
    assert run.result.text == "Five, I think."


async def test_a_paused_turn_goes_on_with_a_word(mock: str, tmp_path: Path):
    """LOOP-05, LOOP-06."""
    run = await ran(mock, tmp_path, "anthropic", "pause once")
    assert run.ends == ["pause", "stop"]
    assert run.result.text == "Found it."
    assert [turn.injected for turn in run.path if turn.injected] == ["pause-continue"]


@pytest.mark.parametrize(
    ("wire", "prompt", "reason"),
    [
        ("anthropic", "refuse this", "content-filter"),
        ("chat", "filter this", "content-filter"),
        ("anthropic", "fill the window", "length"),
        ("chat", "cut it short", "length"),
        ("responses", "cut it short", "length"),
    ],
)
async def test_an_answer_that_ends_otherwise_says_so_and_keeps_its_text(
    mock: str, tmp_path: Path, wire: str, prompt: str, reason: str
):
    """LOOP-05, K-ANTHROPIC-05."""
    behavior = {"max_consecutive_refusal_resumes": 0}
    run = await ran(mock, tmp_path, wire, prompt, behavior=behavior)
    assert run.ends == [reason]
    assert run.path[-1].text in ("I can not", "The answer is long and")


@every_wire
async def test_an_overload_is_tried_again_after_its_delay(mock: str, tmp_path: Path, wire: str):
    """PROV-04, PROV-05: a delay over the cap is cut to it."""
    run = await ran(mock, tmp_path, wire, f"overloaded on {wire}")
    assert run.result.text == "Back again."
    assert len(run.bodies) == 2


@every_wire
@pytest.mark.parametrize("fault", ["truncated", "disconnected", "malformed"])
async def test_a_broken_stream_is_made_anew_and_leaves_no_trace(
    mock: str, tmp_path: Path, wire: str, fault: str
):
    """PROV-05, PROV-16."""
    run = await ran(mock, tmp_path, wire, f"{fault} on {wire}")
    assert run.result.text == "Whole."
    assert [turn.text for turn in run.path] == [f"{fault} on {wire}", "Whole."]
