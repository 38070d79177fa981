"""What a client refuses before anything is started, and what it puts on the wire."""

from pathlib import Path
from typing import Any

import pytest

from zidane_client.starting import checked_payload, checked_request
from zidane_core import Agent, AgentBehavior, tool
from zidane_core.errors import InvalidRequestError, UnknownModelError
from zidane_core.runs import ModelTarget


@tool()
def refund(order: str) -> str:
    """Refund an order."""
    return order


def dedupe(payload: object) -> object:
    return payload


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"hooks": {"tool:before": [dedupe]}}, "hooks.tool:before.*'dedupe'"),
        ({"tools": [refund]}, "tools.*'refund'"),
        ({"behavior": {"extensions": {"on_done": dedupe}}}, "behavior.extensions.on_done"),
        ({"prompt": dedupe}, "prompt"),
    ],
)
def test_a_function_is_refused_with_the_place_and_what_to_do(fields: dict[str, Any], named: str):
    """G-58."""
    with pytest.raises(InvalidRequestError, match=named) as raised:
        checked_request("a", fields)
    assert "callables" in raised.value.message


def test_paths_become_absolute_because_a_worker_works_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    request = checked_request(
        "a", {"model": ["scripted:s.yaml", "openai:gpt"], "workspace": "sub/../work"}
    )
    assert request.model == (f"scripted:{tmp_path / 's.yaml'}", "openai:gpt")
    assert request.workspace == str(tmp_path / "work")


def test_an_agent_object_travels_as_its_name_and_a_behavior_as_what_it_sets():
    request = checked_request(Agent("a"), {"behavior": AgentBehavior(max_turns=3), "prompt": "x"})
    assert request.packed() == {"agent": "a", "behavior": {"max_turns": 3}, "prompt": "x"}


@pytest.mark.parametrize("model", [":gpt", ""])
def test_a_model_that_names_nothing_is_refused(model: str):
    with pytest.raises(UnknownModelError):
        checked_request("a", {"model": model})


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("gpt", "gpt"),
        ("openai:", "openai:"),
        (ModelTarget(provider="openai"), "openai:"),
        (ModelTarget(model="gpt"), "gpt"),
        (ModelTarget(provider="openai", model="gpt"), "openai:gpt"),
    ],
)
def test_a_model_or_a_provider_alone_is_left_to_the_worker(given: Any, sent: Any):
    """CAT-05."""
    request = checked_request("a", {"model": given})
    assert request.model == sent


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"behavior": {"max_trns": 3}}, "max_turns"),
        ({"behavior": 5}, "behavior"),
        ({"thinking": "much"}, "thinking"),
        ({"session_id": "a b"}, "session_id"),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, Any], hint: str):
    with pytest.raises(InvalidRequestError, match=hint):
        checked_request("a", fields)


def test_what_is_over_256_kib_is_refused_with_its_size():
    """K-TEMPORAL-15, DUR-07."""
    assert checked_payload("x" * 1000, "The message") == "x" * 1000
    with pytest.raises(InvalidRequestError, match=r"262146 bytes.*file of the workspace"):
        checked_payload("x" * 262_144, "The message")


def test_what_is_no_json_is_refused():
    with pytest.raises(InvalidRequestError, match="not JSON"):
        checked_payload({"a": {1}}, "The answer")
