"""Decisions: one bounded question to a small model, its events, and why there are no answers."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from activities.decision_call import (
    Chosen,
    NullSink,
    choose,
    model_request,
    success,
    time_limit_ms,
)
from activities.decision_ids import DecisionIds
from activities.hook_bus import DeciderOf, HookBus
from activities.model_call import call_model
from activities.providers.base import ModelRequest, ModelTurn
from activities.providers.registry import split_target
from zidane_core.agent import Agent
from zidane_core.decisions import (
    CancelFlag,
    Decide,
    DecisionFailure,
    DecisionFailureReason,
    DecisionOptions,
    DecisionOutcome,
    DecisionRequest,
    DecisionSuccess,
    input_kind,
    parse_decision,
    settled,
)
from zidane_core.errors import AgentError, InvalidRequestError, ProviderError, UsageError
from zidane_core.hooks import DecisionEnd, DecisionStart, HookContext, LoopReport
from zidane_core.questions import is_unknown_model, problem_of, reason_of, unsupported_part
from zidane_core.values import Json

if TYPE_CHECKING:
    # The dependencies build the hook bus, and with it deciders.
    from activities.dependencies import Dependencies

FLAG_POLL_S = 0.05
"""How often flags are read; what sets one may be a thread."""


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Scope:
    """For whom decisions are made."""

    mint: Callable[[], str]
    """Gives each decision its id."""
    targets: Sequence[str] = ()
    """The run's models, whose providers are asked first."""
    run_id: str | None = None
    session_id: str | None = None
    attempt: int = 1
    is_stopped: Callable[[], bool] = _never
    """Whether the caller has been told to stop; read every 50 ms while a decision is made."""


class _Stopped(Exception):
    pass


class Decider:
    """Makes decisions for one caller; see `zidane_core.decisions.Decide`. Make it in a loop.

    Args:
        deps: The worker's dependencies.
        agent: Whose options and models count; None leaves the model to each request.
        hooks: Where `decision:start` and `decision:end` fire.
        scope: For whom.

    Implements: DEC-01 to DEC-13, HOOK-57.
    """

    def __init__(
        self, deps: "Dependencies", agent: Agent | None, hooks: HookBus, scope: Scope
    ) -> None:
        self._deps = deps
        self._agent = agent
        self._options = agent.decisions if agent is not None else DecisionOptions()
        self._hooks = hooks
        self._scope = scope
        models = (*scope.targets, *(agent.models if agent is not None else ()))
        named = (provider for provider, _ in map(split_target, models) if provider is not None)
        self._candidates = tuple(dict.fromkeys(named))
        self._loop = asyncio.get_running_loop()

    @property
    def available(self) -> bool:
        """Say whether a decision could be made now; see `Decide.available`."""
        try:
            chosen = self._choose(self._options.model)
        except UsageError:
            return False
        return chosen.target not in self._deps.unknown_models

    async def __call__(
        self,
        request: DecisionRequest | Mapping[str, Any],
        *,
        throw: bool = False,
        signal: CancelFlag | None = None,
    ) -> DecisionOutcome:
        """Make a decision; see `Decide`. Cancelling it cancels the call, and is not swallowed."""
        making = self._decide(request, signal)
        if not self._is_in_loop():
            # A thread with a loop of its own, while connections belong to the worker's.
            future = asyncio.run_coroutine_threadsafe(making, self._loop)
            return settled(await asyncio.wrap_future(future), throw=throw)
        return settled(await making, throw=throw)

    def wait(
        self,
        request: DecisionRequest | Mapping[str, Any],
        *,
        throw: bool = False,
        signal: CancelFlag | None = None,
    ) -> DecisionOutcome:
        """Make a decision from a thread; see `Decide.wait`."""
        if self._is_in_loop():
            raise InvalidRequestError(
                "decide.wait() would block the event loop that makes the decision. Write "
                "`await decide(...)` in async code."
            )
        making = self._decide(request, signal)
        outcome = asyncio.run_coroutine_threadsafe(making, self._loop).result()
        return settled(outcome, throw=throw)

    def _is_in_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def _decide(
        self, given: DecisionRequest | Mapping[str, Any], signal: CancelFlag | None
    ) -> DecisionOutcome:
        decision_id = self._scope.mint()
        try:
            request = parse_decision(given)
        except InvalidRequestError as error:
            # Nothing can be said of what was asked, so no events say it.
            return _failure(decision_id, "invalid", error.message, error=error.to_dict())
        chosen, refusal = self._chosen(request, decision_id)
        began = time.monotonic()
        fields = self._event_fields(request, decision_id, chosen)
        outcome = _failure(decision_id, "aborted", "The caller was cancelled.", chosen)
        try:
            if self._hooks.handles("decision:start"):
                await self._hooks.fire("decision:start", DecisionStart(**fields))
            if refusal is not None or chosen is None:
                outcome = refusal or outcome
            else:
                outcome = await self._outcome(request, decision_id, chosen, signal)
        finally:
            # Also when the caller was cancelled: what began is said to have ended.
            await self._fire_end(fields, outcome, began)
        return outcome

    async def _outcome(
        self,
        request: DecisionRequest,
        decision_id: str,
        chosen: Chosen,
        signal: CancelFlag | None,
    ) -> DecisionOutcome:
        timeout_ms = time_limit_ms(request, self._options)
        limit = asyncio.timeout(timeout_ms / 1000)
        call = self._call(model_request(request, chosen), chosen)
        try:
            async with limit:
                turn = await self._unless_stopped(call, signal)
        except _Stopped:
            return _failure(decision_id, "aborted", "The decision was stopped.", chosen)
        except ProviderError as error:
            failure = error.failure
            if is_unknown_model(failure):
                self._deps.unknown_models.add(chosen.target)
            packed: Json = {
                "type": "ProviderError",
                "message": failure.message,
                "details": failure.packed(),
            }
            reason = reason_of(failure)
            return _failure(decision_id, reason, failure.message, chosen, error=packed)
        except AgentError as error:
            reason = "unavailable" if isinstance(error, UsageError) else "error"
            return _failure(decision_id, reason, error.message, chosen, error=error.to_dict())
        except TimeoutError as error:
            if limit.expired():
                message = f"No answer came within {timeout_ms} ms."
                return _failure(decision_id, "timeout", message, chosen)
            return _unexpected(error, decision_id, chosen)
        except Exception as error:
            # Providers may be an author's own, and a decision never raises.
            return _unexpected(error, decision_id, chosen)
        self._deps.unknown_models.discard(chosen.target)
        try:
            return success(request, decision_id, chosen, turn)
        except ValueError as error:
            return _failure(decision_id, "invalid", str(error), chosen)

    async def _call(self, request: ModelRequest, chosen: Chosen) -> ModelTurn:
        scope, agent = self._scope, self._agent
        return await call_model(
            self._deps,
            chosen.name,
            request,
            NullSink(),
            catalog=agent.behavior.model_catalog if agent is not None else None,
            agent=agent,
            hooks=self._hooks,
            ids={"run_id": scope.run_id, "session_id": scope.session_id, "attempt": scope.attempt},
        )

    async def _unless_stopped(
        self, call: Coroutine[Any, Any, ModelTurn], signal: CancelFlag | None
    ) -> ModelTurn:
        """Await the call; stop it when a flag is set or when this is cancelled."""
        task = asyncio.create_task(call)
        try:
            while not task.done():
                if self._scope.is_stopped() or (signal is not None and signal.is_set()):
                    raise _Stopped
                await asyncio.wait({task}, timeout=FLAG_POLL_S)
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # -- which model ------------------------------------------------------------------------

    def _chosen(
        self, request: DecisionRequest, decision_id: str
    ) -> tuple[Chosen | None, DecisionFailure | None]:
        """Return who is asked, and why nobody is: the request may be one that cannot be sent."""
        problem = problem_of(request)
        try:
            chosen = self._choose(request.model or self._options.model)
        except UsageError as error:
            if problem is not None:
                return None, _failure(decision_id, "invalid", problem)
            return None, _failure(decision_id, "unavailable", error.message, error=error.to_dict())
        if problem is not None:
            return chosen, _failure(decision_id, "invalid", problem, chosen)
        images = chosen.provider.capabilities.images
        part = unsupported_part(request.input, images=images)
        if part is not None:
            takes = "text and images" if images else "text"
            message = f"A decision by {chosen.name!r} takes {takes}, not a part of type {part!r}."
            return chosen, _failure(decision_id, "unsupported", message, chosen)
        return chosen, None

    def _choose(self, named: str | None) -> Chosen:
        return choose(self._deps.providers, self._options, self._candidates, named)

    # -- events -----------------------------------------------------------------------------

    def _event_fields(
        self, request: DecisionRequest, decision_id: str, chosen: Chosen | None
    ) -> dict[str, Any]:
        return {
            "decision_id": decision_id,
            "input_kind": input_kind(request.input),
            "question_names": tuple(request.questions),
            "started_at": time.time_ns() // 1_000_000,
            "model": chosen.model if chosen is not None else None,
            "provider": chosen.name if chosen is not None else None,
            "run_id": self._scope.run_id,
            "session_id": self._scope.session_id,
            "attempt": self._scope.attempt,
        }

    async def _fire_end(
        self, fields: dict[str, Any], outcome: DecisionOutcome, began: float
    ) -> None:
        if not self._hooks.handles("decision:end"):
            return
        end = DecisionEnd(
            **fields, duration_ms=int((time.monotonic() - began) * 1000), ok=outcome.ok
        )
        if isinstance(outcome, DecisionSuccess):
            end.answers, end.usage = outcome.answers, outcome.usage
        else:
            end.reason, end.message = outcome.reason, outcome.message
        await self._hooks.fire("decision:end", end)


def _failure(
    decision_id: str,
    reason: DecisionFailureReason,
    message: str,
    chosen: Chosen | None = None,
    *,
    error: Json | None = None,
) -> DecisionFailure:
    return DecisionFailure(
        ok=False,
        decision_id=decision_id,
        reason=reason,
        message=message,
        error=error,
        provider=chosen.name if chosen is not None else None,
        model=chosen.model if chosen is not None else None,
    )


def _unexpected(error: Exception, decision_id: str, chosen: Chosen) -> DecisionFailure:
    packed: Json = {"type": type(error).__name__, "message": str(error)}
    message = f"The model call failed: {type(error).__name__}: {error}"
    return _failure(decision_id, "error", message, chosen, error=packed)


def hook_deciders(deps: "Dependencies", agent: Agent, targets: Sequence[str]) -> DeciderOf:
    """Return what gives the handlers of one activity's events their `decide`.

    An id comes from the run, the event and what it is about, so that a retry has it again.

    Implements: HOOK-02.
    """
    ids: dict[str, DecisionIds] = {}

    def make(bus: HookBus, event: str, context: HookContext, stop: CancelFlag) -> Decide:
        about = [getattr(context, name, None) for name in ("turn_id", "call_id")]
        fields = context.fields if isinstance(context, LoopReport) else None
        place = (context.run_id, event, *about, fields)
        scope = Scope(
            mint=ids.setdefault(repr(place), DecisionIds(*place)),
            targets=targets,
            run_id=context.run_id,
            session_id=context.session_id,
            attempt=context.attempt,
            is_stopped=stop.is_set,
        )
        return Decider(deps, agent, bus, scope)

    return make


async def decide_for_client(deps: "Dependencies", payload: Mapping[str, Any]) -> DecisionOutcome:
    """Make a decision that a client asked for.

    Args:
        deps: The worker's dependencies.
        payload: `agent` (a name, or None), `request`, `decision_id`.

    Implements: DEC-01.
    """
    decision_id, name = str(payload["decision_id"]), payload.get("agent")
    try:
        agent = deps.agent(str(name)) if name is not None else None
    except UsageError as error:
        return _failure(decision_id, "unavailable", error.message, error=error.to_dict())
    return await decide_as(deps, agent, payload["request"], decision_id)


async def decide_as(
    deps: "Dependencies",
    agent: Agent | None,
    request: DecisionRequest | Mapping[str, Any],
    decision_id: str,
) -> DecisionOutcome:
    """Make one decision outside any run, with the agent's options and `decision:*` handlers."""
    if agent is None:
        hooks = HookBus({}, timeout_ms=0)
    else:
        hooks = HookBus(agent.hooks, timeout_ms=agent.behavior.hook_timeout_ms)
    return await Decider(deps, agent, hooks, Scope(mint=lambda: decision_id))(request)
