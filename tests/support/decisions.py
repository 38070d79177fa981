"""Decisions in tests: a request, models that answer or hang, and a place with a worker's parts."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from activities.decide import Decider, Scope
from activities.decision_ids import DecisionIds
from activities.dependencies import Dependencies
from activities.hook_bus import HookBus
from activities.providers.base import ModelRequest, ModelTurn, ProviderMeta, StreamSink
from activities.providers.registry import Providers
from activities.store import Store, open_store
from tests.support.inline_runs import PlayedModel, says
from zidane_core import (
    Agent,
    DecisionFailure,
    DecisionRequest,
    DecisionSuccess,
    PredicateQuestion,
)
from zidane_core.hooks import Handler

REQUEST = DecisionRequest(
    input="The parcel came on time.", questions={"late": PredicateQuestion(question="Late?")}
)
YES = says('{"late": true}', input=8, output=3)
DECIDES = ProviderMeta(decision_model="small")


def played(*turns: Any, name: str = "played", meta: ProviderMeta = DECIDES) -> PlayedModel:
    return PlayedModel(turns or (YES,), name=name, meta=meta)


class Place:
    """A worker's dependencies, and events as they fired."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.events: list[tuple[str, Any]] = []

    def deps(self, *models: PlayedModel, environ: Mapping[str, str] | None = None) -> Dependencies:
        providers = Providers({model.name: model for model in models}, environ=environ or {})
        return Dependencies(store=self.store, providers=providers, agents={})

    def decider(
        self,
        *models: PlayedModel,
        agent: Agent | None = None,
        deps: Dependencies | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Decider:
        bus = HookBus(
            {name: (self._record(name),) for name in ("decision:start", "decision:end")},
            timeout_ms=0,
        )
        scope = Scope(
            mint=DecisionIds("r", "c"),
            targets=[f"{model.name}:big" for model in models],
            run_id="r",
            session_id="s",
            is_stopped=is_stopped,
        )
        return Decider(deps or self.deps(*models), agent, bus, scope)

    def _record(self, name: str) -> Handler:
        async def handle(payload: Any) -> None:
            self.events.append((name, payload))

        return handle


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    store = await open_store(f"sqlite:///{tmp_path / 'zidane.db'}")
    yield Place(store)
    await store.close()


def failure(outcome: DecisionSuccess | DecisionFailure) -> DecisionFailure:
    assert isinstance(outcome, DecisionFailure), outcome
    return outcome


class Hanging:
    """A model that answers never, and says when it was asked and when it was let go."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError


def by_kind(turn: ModelTurn) -> Any:
    """Answer decisions with a yes, and turns with the turn."""

    async def play(request: ModelRequest, sink: StreamSink) -> ModelTurn:
        if request.force_tool is not None:
            return YES
        sink.text("x")
        return turn

    return play
