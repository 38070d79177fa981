"""The agents that a command's worker runs: `basic`, and those named on the command line."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from activities.toolbox.basic_agent import BASIC_AGENT, basic_agent
from zidane_core.agent import Agent
from zidane_core.errors import InvalidRequestError, UsageError


def load_agents(places: Sequence[str]) -> list[Agent]:
    """Return the agents named as `module:object`, and `basic` unless one of them is named so.

    Modules are looked for in the working directory first. An object is an Agent or a list.

    Raises:
        UsageError: A place cannot be imported or holds no agent, or two agents share a name.
    """
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    agents = [agent for place in places for agent in _agents_of(place)]
    names = [agent.name for agent in agents]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequestError(f"Two agents are named {name!r} in {list(places)}.")
    return agents if BASIC_AGENT in names else [basic_agent(), *agents]


def _agents_of(place: str) -> list[Agent]:
    module_name, colon, attribute = place.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(f"{place!r} names no agent. Give module:object, such as myagents:support.")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # Only the module itself is missing, or one that it imports.
        missing = f"module {error.name!r}"
        raise UsageError(
            f"Cannot import {place!r}: {missing} was not found from {str(Path.cwd())!r}."
        ) from error
    except Exception as error:
        # An author's module may raise anything.
        raise UsageError(
            f"Cannot import {place!r}: {type(error).__name__}: {error}{_where(error)}"
        ) from error
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise UsageError(f"Module {module_name!r} has no {attribute!r}.")
        found = getattr(found, name)
    listed = cast("Sequence[Any]", found) if isinstance(found, list | tuple) else (found,)
    agents = [entry for entry in listed if isinstance(entry, Agent)]
    if len(agents) != len(listed) or not agents:
        raise UsageError(
            f"{place!r} is no Agent and no list of Agents: it is {str(cast(Any, found))[:100]!r}."
        )
    return agents


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    last = None
    while trace is not None:
        last, trace = trace, trace.tb_next
    if last is None:
        return ""
    return f" ({last.tb_frame.f_code.co_filename}, line {last.tb_lineno})"
