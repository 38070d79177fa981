import pytest
from pydantic import TypeAdapter

from zidane_core.behavior import AgentBehavior, StoredBehavior, parse_behavior, resolve_behavior
from zidane_core.errors import InvalidRequestError


def test_a_run_overrides_the_agent_field_by_field():
    """RUN-04."""
    agent = AgentBehavior(max_turns=5, max_tokens=100)
    made = resolve_behavior({"max_turns": 9}, agent)
    assert (made.max_turns, made.max_tokens) == (9, 100)
    assert resolve_behavior(None, agent) == agent
    assert resolve_behavior(None, None) == AgentBehavior()


def test_a_run_can_set_a_field_back_to_its_default():
    """RUN-04: null is a value."""
    assert resolve_behavior({"max_turns": None}, AgentBehavior(max_turns=5)).max_turns is None


def test_extensions_merge_key_by_key():
    """RUN-04, RUN-23."""
    agent = AgentBehavior(extensions={"a": 1, "b": 1})
    assert resolve_behavior({"extensions": {"b": 2}}, agent).extensions == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("fields", "field", "near"),
    [
        ({"max_turn": 3}, "max_turn", "max_turns"),
        ({"maxTurns": 3}, "maxTurns", "max_turns"),
        ({"retry": {"max_attempt": 3}}, "retry.max_attempt", "max_attempts"),
    ],
)
def test_an_unknown_field_is_refused_with_the_nearest_one(
    fields: dict[str, object], field: str, near: str
):
    """RUN-04."""
    with pytest.raises(InvalidRequestError, match=rf"Did you mean '{near}'\?") as caught:
        parse_behavior(fields)  # pyright: ignore[reportArgumentType] -- JSON
    assert caught.value.details["field"] == field


@pytest.mark.parametrize(
    ("field", "value"), [("max_turns", 0), ("max_turns", "many"), ("hook_timeout_ms", -1)]
)
def test_a_wrong_value_is_refused_with_field_and_value(field: str, value: object):
    with pytest.raises(InvalidRequestError, match=rf"behavior\.{field}: {value!r}"):
        parse_behavior({field: value})  # pyright: ignore[reportArgumentType] -- JSON


@pytest.mark.parametrize(("value", "cap"), [(-3, 1), (0, 1), (1, 1), (7, 7)])
def test_a_cap_on_calls_below_one_is_one(value: int, cap: int):
    """TOOL-02."""
    assert AgentBehavior(max_concurrent_tools=value).max_concurrent_tools == cap


def test_a_stored_behavior_drops_what_it_does_not_know():
    stored = TypeAdapter[AgentBehavior](StoredBehavior)
    assert stored.validate_python({"max_turns": 3, "newer": 1}) == AgentBehavior(max_turns=3)
