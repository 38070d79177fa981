from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zidane_core.content import TextPart
from zidane_core.control import (
    Abort,
    ControlName,
    FollowUp,
    Pause,
    QueuedUserMessage,
    Refused,
    Resume,
    Steer,
    Suspend,
    parse_control,
)
from zidane_core.runs import MAX_PAYLOAD_BYTES

NAMES: list[ControlName] = ["steer", "follow_up", "pause", "resume", "abort", "suspend"]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("name", "payload", "control"),
    [
        ("steer", "go", Steer(message=QueuedUserMessage(prompt="go"))),
        (
            "follow_up",
            {"prompt": "go", "id": "1", "system_notes": ["n"]},
            FollowUp(message=QueuedUserMessage(prompt="go", id="1", system_notes=("n",))),
        ),
        (
            "steer",
            {"prompt": [{"type": "text", "text": "x"}]},
            Steer(message=QueuedUserMessage(prompt=(TextPart(text="x"),))),
        ),
        ("pause", None, Pause(mode="hold")),
        ("pause", {"mode": "return"}, Pause(mode="return")),
        ("resume", None, Resume()),
        ("abort", None, Abort()),
        ("abort", "enough", Abort(reason="enough")),
        ("abort", {"reason": "enough"}, Abort(reason="enough")),
        ("suspend", None, Suspend()),
    ],
)
def test_good_payloads_are_read(name: ControlName, payload: Any, control: object):
    """CTL-01 to CTL-09."""
    assert parse_control(name, payload, size=10) == control


@pytest.mark.parametrize(
    ("name", "payload", "says"),
    [
        ("steer", 5, "'5'"),
        ("steer", None, "'None'"),
        ("steer", {"txt": "a"}, "prompt"),
        ("steer", {"prompt": "a", "txt": "b"}, "txt"),
        ("steer", "", "empty"),
        ("pause", {"mode": "maybe"}, "mode"),
        ("abort", {"why": "x"}, "why"),
    ],
)
def test_bad_payloads_are_refused_with_the_reason(name: ControlName, payload: Any, says: str):
    """K-TEMPORAL-15."""
    refused = parse_control(name, payload, size=10)
    assert isinstance(refused, Refused)
    assert refused.name == name
    assert says in refused.reason


def test_a_payload_over_the_limit_is_refused_unread():
    """K-TEMPORAL-15."""
    assert isinstance(parse_control("steer", "x", size=MAX_PAYLOAD_BYTES), Steer)
    refused = parse_control("steer", None, size=MAX_PAYLOAD_BYTES + 1)
    assert isinstance(refused, Refused)
    assert str(MAX_PAYLOAD_BYTES + 1) in refused.reason


@given(st.sampled_from(NAMES), anything)
def test_no_payload_makes_reading_raise(name: ControlName, payload: Any):
    """K-TEMPORAL-15."""
    control = parse_control(name, payload, size=10)
    assert control.kind in (name, "refused")
