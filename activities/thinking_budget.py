"""The thinking budget of one turn: the behavior's, decayed by a schedule or an agent's callable."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from activities.providers.base import ProviderCapabilities
from zidane_core.agent import Agent
from zidane_core.errors import AgentError, InvalidRequestError
from zidane_core.manifest import RunManifest
from zidane_core.thinking import applies_decay, decayed_budget


def check_decay(manifest: RunManifest, agent: Agent) -> None:
    """Refuse a decay that names no callable of the agent.

    Raises:
        InvalidRequestError: Names those that there are.
    """
    decay = manifest.behavior.thinking_decay
    if isinstance(decay, str) and decay not in agent.callables:
        raise InvalidRequestError(
            f"behavior.thinking_decay names callable {decay!r}, which agent {agent.name!r} does "
            f"not have. Known: {sorted(agent.callables)}."
        )


def thinking_budget(
    manifest: RunManifest,
    callables: Mapping[str, Callable[..., Any]],
    capabilities: ProviderCapabilities,
    *,
    run_turn: int,
) -> int | None:
    """Return the tokens of reasoning of a turn; None when the level alone decides.

    Raises:
        AgentError: The named callable is gone from this worker, or returned no number.

    Implements: THNK-02, THNK-05, THNK-06, THNK-07, THNK-08.
    """
    behavior = manifest.behavior
    base, decay = behavior.thinking_budget, behavior.thinking_decay
    envelope = capabilities.adaptive_budget_is_envelope
    if base is None or decay is None:
        return base
    if not applies_decay(manifest.thinking, adaptive_is_envelope=envelope):
        return base
    if not isinstance(decay, str):
        return decayed_budget(base, decay, run_turn)
    if decay not in callables:
        raise AgentError(f"Callable {decay!r} for thinking_decay is not on this worker.")
    tokens = callables[decay](run_turn, base)
    if not isinstance(tokens, int | float) or not math.isfinite(tokens):
        raise AgentError(
            f"Callable {decay!r} for thinking_decay returned {tokens!r} for turn {run_turn}; it "
            "must return a number of tokens."
        )
    return max(1, int(tokens))
