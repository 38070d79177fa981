"""`decide_inline`: a decision in this process, without Temporal."""

import contextlib
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from activities.decide import decide_as
from activities.dependencies import Dependencies
from activities.providers.base import Provider
from activities.providers.registry import Providers
from activities.store import open_store
from zidane_core.agent import Agent
from zidane_core.decisions import DecisionOutcome, DecisionRequest, settled


async def decide_inline(
    agent: Agent | None,
    request: DecisionRequest | Mapping[str, Any],
    *,
    providers: Mapping[str, Provider] | None = None,
    throw: bool = False,
) -> DecisionOutcome:
    """Ask a small model typed questions in this process: for tests, notebooks and scripts.

    Args:
        agent: Whose options, models and `decision:*` hooks count; None wants a model as
            `provider:model` in the request.
        request: Evidence and questions.
        providers: More model providers by name.
        throw: Raise instead of returning a failure.

    Raises:
        DecisionError: Only with `throw`.

    Implements: DEC-01.
    """
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="zidane-"))
        store = await open_store(f"sqlite:///{Path(folder) / 'zidane.db'}")
        stack.push_async_callback(store.close)
        registry = Providers(providers or {})
        stack.push_async_callback(registry.close)
        agents = {agent.name: agent} if agent is not None else {}
        deps = Dependencies(store=store, providers=registry, agents=agents)
        outcome = await decide_as(deps, agent, request, str(uuid.uuid4()))
    return settled(outcome, throw=throw)
