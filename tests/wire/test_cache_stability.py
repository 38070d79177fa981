"""A session's requests over HTTP: what was sent once is sent again byte for byte."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from activities.dependencies import Dependencies, agents_by_name
from activities.inline import InlineRuntime
from activities.providers.registry import Providers
from activities.store import open_store
from activities.tool_output import MAX_OUTPUT_BYTES
from tests.support.clocks import CountingClock
from tests.support.fake_llm import FakeLLM, Reply, Request, anthropic_turn, openai_chunks
from tests.support.wires import WIRES, sent
from zidane_core import Agent, tool
from zidane_core.runs import RunRequest

ROOT = Path(__file__).parents[2]
MIDNIGHT = 1_796_083_200_000
"""2026-12-01 00:00 UTC."""
NEAR_THE_LIMIT = (MAX_OUTPUT_BYTES - 1, MAX_OUTPUT_BYTES, MAX_OUTPUT_BYTES + 1)


@tool(read_only=True)
async def read_log(turn: int) -> str:
    """Read a log as long as a result may be, or a little longer."""
    return "ü" * (NEAR_THE_LIMIT[turn] // 2) + "x" * (NEAR_THE_LIMIT[turn] % 2)


@tool(read_only=True)
async def alpha(b: int = 1, a: str = "x") -> str:
    """Do nothing."""
    return ""


def answer(request: Request) -> Reply:
    """A call after each message of the user, and a word after its result."""
    body = request.body
    last = body["messages"][-1]
    is_result = last["role"] == "tool" or "tool_result" in json.dumps(last)[:120]
    asked = sum(
        message["role"] == "user" and "turn" in json.dumps(message)[:200]
        for message in body["messages"]
    )
    call_id = f"call_{asked}"
    arguments = json.dumps({"turn": asked - 1})
    if "max_tokens" in body:
        if is_result:
            return anthropic_turn({"type": "text", "text": "Seen."})
        thought = {"type": "thinking", "thinking": "Hm.", "signature": f"sig-{asked}"}
        call = {"type": "tool_use", "id": call_id, "name": "read_log", "input": arguments}
        return anthropic_turn(thought, call, stop_reason="tool_use")
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    if is_result:
        return openai_chunks({"content": "Seen."}, usage=usage)
    function = {"name": "read_log", "arguments": arguments}
    call = {"index": 0, "id": call_id, "type": "function", "function": function}
    return openai_chunks({"tool_calls": [call]}, finish_reason="tool_calls", usage=usage)


@pytest.mark.parametrize(
    ("wire", "model"), [("anthropic", "anthropic:claude-sonnet-5-5"), ("openai", "openai:gpt-5")]
)
async def test_three_turns_over_midnight_with_a_restart_send_the_same_bytes(
    tmp_path: Path, wire: str, model: str
):
    """K-BUDGET-01, CACHE-04: system and tools are equal, messages only get longer."""
    clock = CountingClock(MIDNIGHT - 120_000)
    agent = Agent("reader", model=model, system="Be brief.", tools=[read_log, alpha])
    async with FakeLLM() as llm:
        llm.otherwise = answer
        environ = {
            "ANTHROPIC_API_KEY": "k1",
            "ANTHROPIC_BASE_URL": llm.url,
            "OPENAI_API_KEY": "k2",
            "OPENAI_BASE_URL": llm.openai_url,
        }
        for turn in range(3):
            # Each turn on a worker of its own that knows only what the store holds.
            store = await open_store(f"sqlite:///{tmp_path / 'cache.db'}")
            providers = Providers(environ=environ)
            deps = Dependencies(store=store, providers=providers, agents=agents_by_name([agent]))
            request = RunRequest(
                agent="reader",
                prompt=f"turn {turn}",
                session_id="s1",
                workspace=str(tmp_path),
                model_options={"api": "chat"},
            )
            result = await InlineRuntime(deps, request, clock=clock).run()
            assert result.text == "Seen."
            await providers.close()
            await store.close()
            clock.time += 90_000
        bodies = llm.bodies
    assert len(bodies) == 6
    assert clock.time > MIDNIGHT
    for before, body in itertools.pairwise(bodies):
        for head in ("system", "tools"):
            assert sent(body.get(head)) == sent(before.get(head))
        earlier, now = sent(WIRES[wire].parts(before)), sent(WIRES[wire].parts(body))
        assert now[: len(earlier)] == earlier
        assert len(now) > len(earlier)
    assert "<output-truncated>" in json.dumps(bodies[-1])


def printed(seed: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.print_requests"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
    )
    return done.stdout


def test_two_hash_seeds_give_the_same_bytes_on_every_wire():
    """K-BUDGET-01, CACHE-04: no set decides an order."""
    first = printed("1")
    assert first.count(b"\n") == len(WIRES)
    assert printed("2") == first
