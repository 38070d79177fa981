"""A decision's one model call: which model, what it is sent, and what its turn answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from activities.providers.base import ModelRequest, ModelTurn, Provider, takes_schema
from activities.providers.registry import Providers
from zidane_core.content import TextBlock, ToolCallBlock
from zidane_core.decisions import (
    DEFAULT_DECISION_TIMEOUT_MS,
    DecisionAnswers,
    DecisionOptions,
    DecisionRequest,
    DecisionSuccess,
    DecisionUsage,
)
from zidane_core.errors import UnknownModelError, UsageError
from zidane_core.questions import (
    ANSWER_TOOL,
    answer_schema,
    decision_prompt,
    read_answers,
    refuse_all,
)
from zidane_core.session import Message
from zidane_core.tools import ToolSpec
from zidane_core.usage import TurnUsage

MAX_ANSWER_TOKENS = 4_096
"""Far more than answers take; it bounds a model that starts to talk."""


class NullSink:
    """Takes a stream that nobody watches."""

    def text(self, delta: str) -> None:
        """Ignore it."""

    def thinking(self, delta: str) -> None:
        """Ignore it."""

    def tool_call(self, name: str) -> None:
        """Ignore it."""

    def tool_arguments(self, delta: str) -> None:
        """Ignore it."""

    def server_tool(self, name: str) -> None:
        """Ignore it."""


@dataclass(frozen=True)
class Chosen:
    """Who is asked."""

    provider: Provider
    name: str
    """The key under which the worker knows the provider."""
    model: str

    @property
    def target(self) -> str:
        """`provider:model`."""
        return f"{self.name}:{self.model}"


def choose(
    providers: Providers,
    options: DecisionOptions,
    candidates: Sequence[str],
    named: str | None,
) -> Chosen:
    """Return the provider and model to ask; makes no request.

    Args:
        providers: The worker's.
        options: The agent's.
        candidates: Names of providers in the order in which they are tried.
        named: The model that request or options name; None takes the provider's own small one.

    Raises:
        UsageError: There is none, or none that has its key; the reason of the first.

    Implements: DEC-03, DEC-06.
    """
    if not options.enabled:
        raise UsageError(
            "Decisions are turned off for this agent (DecisionOptions(enabled=False))."
        )
    provider, colon, rest = (named or "").partition(":")
    # Models may have colons of their own: only a provider's name counts as one.
    is_full = bool(colon) and provider in providers.names
    if is_full:
        candidates = (provider,)
    elif options.provider is not None:
        candidates = (options.provider,)
    refusal: UsageError | None = None
    for name in candidates:
        try:
            found = providers.get(name)
        except UsageError as error:
            refusal = refusal or error
            continue
        model = rest if is_full else named or found.meta.decision_model
        if model:
            return Chosen(found, name, model)
        refusal = refusal or UnknownModelError(
            f"Provider {name!r} has no decision model of its own: name one in the request or in "
            "DecisionOptions(model=...).",
            provider=name,
        )
    raise refusal or UnknownModelError(
        "No model for decisions: the agent has none. Name one as provider:model in the request "
        "or in DecisionOptions(model=...)."
    )


def time_limit_ms(request: DecisionRequest, options: DecisionOptions) -> int:
    """Return how long a decision may take, its hooks not counted (DEC-03)."""
    return request.timeout_ms or options.timeout_ms or DEFAULT_DECISION_TIMEOUT_MS


def model_request(request: DecisionRequest, chosen: Chosen) -> ModelRequest:
    """Return the call: held to a schema natively, else by one tool that must be called."""
    schema = answer_schema(request.questions)
    is_native = takes_schema(chosen.provider, chosen.model, {})
    system, content = decision_prompt(request, by_tool=not is_native)
    tool = ToolSpec(name=ANSWER_TOOL, description="Takes the answers.", input_schema=schema)
    return ModelRequest(
        model=chosen.model,
        system=system,
        messages=(Message(role="user", content=content),),
        tools=() if is_native else (tool,),
        max_tokens=MAX_ANSWER_TOKENS,
        cache=False,
        output_schema=schema if is_native else None,
        force_tool=None if is_native else ANSWER_TOOL,
    )


def success(
    request: DecisionRequest, decision_id: str, chosen: Chosen, turn: ModelTurn
) -> DecisionSuccess:
    """Return what a turn answers.

    Raises:
        ValueError: It holds no answers that fit; one plain sentence.

    Implements: DEC-07, DEC-10.
    """
    return DecisionSuccess(
        ok=True,
        decision_id=decision_id,
        answers=_answers(request, turn),
        provider=turn.usage.provider or chosen.name,
        model=turn.usage.model_id or chosen.model,
        usage=_usage(turn.usage),
        id=turn.request_id,
    )


def _answers(request: DecisionRequest, turn: ModelTurn) -> DecisionAnswers:
    text = "".join(block.text for block in turn.blocks if isinstance(block, TextBlock))
    if turn.finish_reason == "content-filter":
        return refuse_all(request.questions, text)
    if turn.finish_reason == "length":
        raise ValueError(f"The reply was cut at {MAX_ANSWER_TOKENS} tokens.")
    for block in turn.blocks:
        if isinstance(block, ToolCallBlock) and block.name == ANSWER_TOOL:
            if block.invalid is not None:
                raise ValueError(block.invalid)
            return read_answers(request.questions, block.input)
    # A model that was made to call may still answer in text; the same rules read it.
    return read_answers(request.questions, text)


def _usage(usage: TurnUsage) -> DecisionUsage:
    cached = (usage.cache_read or 0) + (usage.cache_creation or 0)
    return DecisionUsage(input=usage.input + cached, output=usage.output, cost=usage.cost)
