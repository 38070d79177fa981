"""Tools that a person answers, through the `answer` update; their bodies never run."""

from zidane_core.authoring import tool
from zidane_core.errors import InternalError


@tool(asks_person=True)
def ask_user(question: str) -> str:
    """Ask the person who started this run a question and wait for the answer.

    Use it only when you cannot go on without an answer; nobody may be there for hours.
    """
    raise InternalError(f"ask_user has no body to run; the run waits for an answer to {question!r}")
