"""What every activity of a worker shares: agents, store, providers, and what is cached by hash."""

import difflib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from activities.content_refs import RefCache
from activities.decide import hook_deciders
from activities.hook_bus import HookBus
from activities.providers.catalog import model_facts
from activities.providers.registry import Providers
from activities.store import Store
from zidane_core.agent import Agent
from zidane_core.context.wire_view import WireView
from zidane_core.errors import InvalidRequestError, UnknownAgentError
from zidane_core.manifest import RunManifest
from zidane_core.models import ModelInfo

MAX_CACHED_VIEWS = 256
MAX_VIEW_CHARS = 67_108_864
"""Text of all cached views; mostly shared with the store's own cache of turns."""
MAX_CACHED_MANIFESTS = 256

CancelReason = Literal["client", "shutdown"]


def _cancelled_by_client() -> CancelReason:
    return "client"


@dataclass(frozen=True)
class Attempt:
    """The attempt of an activity that runs."""

    number: int = 1
    """Counted by Temporal from 1; above 1 after a worker was lost or the store out of reach."""
    cancel_reason: Callable[[], CancelReason] = _cancelled_by_client
    """Why the attempt was cancelled; a worker's shutdown is not a client's stop."""


def agents_by_name(agents: Iterable[Agent]) -> dict[str, Agent]:
    """Return agents by name.

    Raises:
        InvalidRequestError: Two agents share a name.
    """
    found: dict[str, Agent] = {}
    for agent in agents:
        if agent.name in found:
            raise InvalidRequestError(f"Two agents are named {agent.name!r} on this worker.")
        found[agent.name] = agent
    return found


@dataclass
class Dependencies:
    """Everything that activities reach for. One per worker."""

    store: Store
    providers: Providers
    agents: dict[str, Agent]
    unknown_models: set[str] = field(default_factory=set[str])
    """Decision models, as `provider:model`, that their service said it does not know (DEC-02)."""
    refs: RefCache = field(default_factory=RefCache)
    """Content of refs that was fetched lately (PART-08)."""
    _manifests: OrderedDict[str, RunManifest] = field(default_factory=OrderedDict[str, RunManifest])
    _views: OrderedDict[str, WireView] = field(default_factory=OrderedDict[str, WireView])

    def agent(self, name: str) -> Agent:
        """Return an agent.

        Raises:
            UnknownAgentError: Names the agents that this worker has.
        """
        agent = self.agents.get(name)
        if agent is None:
            near = difflib.get_close_matches(name, list(self.agents), n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise UnknownAgentError(
                f"Unknown agent {name!r}. {hint}This worker has: {sorted(self.agents)}.", agent=name
            )
        return agent

    async def model_info(
        self, catalog: Mapping[str, ModelInfo] | None, provider: str, model: str
    ) -> ModelInfo:
        """Return what is known of a model, cached but for what run, agent or host say themselves.

        Args:
            catalog: The run's table, merged over its agent's (`manifest.behavior.model_catalog`).
            provider: The key before the colon in `provider:model`.
            model: The model as it is asked for.

        Implements: CAT-01, CAT-02.
        """
        base_url = self.providers.base_url(provider)
        return (await model_facts([catalog], provider, model, base_url=base_url)).info

    async def manifest(self, content_hash: str) -> RunManifest:
        """Return a run's manifest from its hash; cached, as its content cannot change."""
        found = self._manifests.get(content_hash)
        if found is None:
            found = RunManifest.unpacked(await self.store.manifest(content_hash))
            self._manifests[content_hash] = found
            if len(self._manifests) > MAX_CACHED_MANIFESTS:
                self._manifests.popitem(last=False)
        return found

    def hooks(self, manifest: RunManifest) -> HookBus:
        """Return the bus of a run's hooks: the agent's, then those that the run named."""
        agent = self.agent(manifest.agent)
        handlers = dict(agent.hooks)
        for event, names in manifest.hooks.items():
            for name in names:
                handler = agent.callables.get(name)
                if handler is None:
                    raise InvalidRequestError(
                        f"Agent {agent.name!r} has no callable {name!r} for hook {event!r} on "
                        f"this worker. Known: {sorted(agent.callables)}."
                    )
                handlers[event] = (*handlers.get(event, ()), handler)
        return HookBus(
            handlers,
            timeout_ms=manifest.behavior.hook_timeout_ms,
            decider=hook_deciders(self, agent, manifest.targets),
        )

    def take_view(self, session_id: str) -> WireView:
        """Take the session's wire view out of the cache; a new one when there is none.

        Taken, not shared: two attempts of one turn in one process never extend the same view.
        """
        return self._views.pop(session_id, None) or WireView()

    def keep_view(self, session_id: str, view: WireView) -> None:
        """Put a session's wire view back for the next turn."""
        self._views[session_id] = view
        held = sum(cached.size for cached in self._views.values())
        while len(self._views) > 1 and (
            len(self._views) > MAX_CACHED_VIEWS or held > MAX_VIEW_CHARS
        ):
            held -= self._views.popitem(last=False)[1].size
