from typing import Any

import pytest

from zidane_core.errors import InvalidRequestError
from zidane_core.runs import RunRequest, RunResult, parse_request


def test_only_the_agent_is_needed():
    """RUN-02."""
    assert parse_request({"agent": "a"}) == RunRequest(agent="a")


@pytest.mark.parametrize("payload", [None, "a", 5, ["a"]])
def test_a_request_is_an_object(payload: Any):
    with pytest.raises(InvalidRequestError, match="JSON object"):
        parse_request(payload)


@pytest.mark.parametrize(
    ("payload", "field", "says"),
    [
        ({}, "agent", "agent"),
        ({"agent": "a", "promt": "x"}, "promt", "Did you mean 'prompt'?"),
        ({"agent": "a", "zzz": 1}, "zzz", "Known:"),
        ({"agent": "a", "session_id": "a b"}, "session_id", "session_id"),
        ({"agent": "a", "session_id": "x" * 201}, "session_id", "session_id"),
        ({"agent": "a", "thinking": "hard"}, "thinking", "thinking"),
        ({"agent": "a", "depth": -1}, "depth", "depth"),
        ({"agent": "a", "on_provider_failure": "cry"}, "on_provider_failure", "'cry'"),
    ],
)
def test_a_wrong_request_names_the_field(payload: Any, field: str, says: str):
    """RUN-02, RUN-05."""
    with pytest.raises(InvalidRequestError) as caught:
        parse_request(payload)
    assert says in caught.value.message
    assert caught.value.details["field"] == field


def test_a_request_survives_packing():
    """RUN-02: parts keep their type."""
    wanted = parse_request(
        {
            "agent": "a",
            "prompt": [{"type": "image", "data": "QQ==", "media_type": "image/png"}],
            "model": ["scripted:x", {"provider": "openai", "model": "m"}],
            "tools": [],
        }
    )
    assert parse_request(wanted.packed()) == wanted


def test_a_result_names_every_field_of_the_contract():
    """RUN-24."""
    full = RunResult(status="completed", session_id="s", run_id="r").full()
    assert set(full) == {
        "status", "text", "output", "session_id", "run_id", "head", "stats", "error", "unconsumed",
    }  # fmt: skip
