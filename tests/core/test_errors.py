import json

import pytest

from zidane_core import errors
from zidane_core.errors import AgentBudgetExceededError, AgentError, matches_context_exceeded


def every_error() -> list[type[AgentError]]:
    found = [AgentError]
    for cls in found:
        found += cls.__subclasses__()
    return [cls for cls in found if cls.__module__ == errors.__name__]


@pytest.mark.parametrize("cls", every_error(), ids=lambda cls: cls.__name__)
def test_an_error_survives_json_with_class_and_details(cls: type[AgentError]):
    """ERR-09."""
    error = cls("what happened", path="a.txt", count=3)
    again = AgentError.from_dict(json.loads(json.dumps(error.to_dict())))
    assert type(again) is cls
    assert (again.message, again.details) == (error.message, error.details)
    assert str(again) == error.message


def test_an_unknown_type_comes_back_as_the_base():
    """ERR-09: written by a newer version."""
    again = AgentError.from_dict({"type": "NewerError", "message": "m", "details": {"a": 1}})
    assert type(again) is AgentError
    assert again.details == {"a": 1}
    assert AgentError.from_dict({"type": "X", "message": "m", "details": 5}).details == {}


def test_an_error_without_details_packs_none():
    assert AgentError("m").to_dict() == {"type": "AgentError", "message": "m"}


def test_a_budget_error_says_what_was_spent_and_what_to_do():
    """ERR-01."""
    error = AgentBudgetExceededError.over("tokens", spent=110, allowed=100)
    assert error.details == {"limit": "tokens", "spent": 110, "allowed": 100}
    assert error.message.startswith("Run budget exceeded: 110 tokens spent, 100 allowed.")


@pytest.mark.parametrize(
    ("message", "matches"),
    [("Prompt is too long: 9 > 8", True), ("context_length_exceeded", True), ("too slow", False)],
)
def test_context_messages_are_recognised(message: str, matches: bool):
    """ERR-08."""
    assert matches_context_exceeded(message) is matches
