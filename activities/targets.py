"""From what a run or an agent names as its model to the targets that are tried in order."""

from collections.abc import Mapping, Sequence

from activities.providers.catalog import is_covered, known_by
from activities.providers.registry import (
    BUILT_IN,
    EXAMPLE_FORM,
    OFFLINE,
    Providers,
    split_target,
)
from zidane_core.agent import Agent
from zidane_core.errors import UnknownModelError
from zidane_core.models import ModelInfo
from zidane_core.runs import ModelTarget

Named = str | ModelTarget


async def resolve_targets(
    providers: Providers,
    agent: Agent,
    wanted: str | Sequence[Named] | None,
    catalog: Mapping[str, ModelInfo] | None = None,
) -> tuple[str, ...]:
    """Return `provider:model` in the order in which they are tried; makes no request.

    An entry with a provider pins it; without a model it gets the provider's default. A bare model
    name fans out: over the providers of the agent's own models, or, when those name none, over the
    built-in ones that have a key. Where the catalogue knows the name for some of them, only those
    stay.

    Args:
        providers: The worker's.
        agent: Whose models count when the run names none.
        wanted: What the run names.
        catalog: The run's own table of models.

    Returns:
        At least one target, each once; every pinned one has its key.

    Raises:
        UnknownModelError: No model at all, an unknown provider, a provider without a default
            model, or a bare name that no provider here takes.
        MissingKeyError: A pinned provider's key or base URL is not there, or that of the only
            providers that know a bare name.
        InvalidRequestError: The script of a `scripted` model is missing or broken.

    Implements: CAT-05, CAT-06, PROV-10.
    """
    entries = _entries(agent.models if wanted is None else wanted)
    if not entries:
        raise UnknownModelError(
            f"No model: agent {agent.name!r} has none and the request names none. {EXAMPLE_FORM}"
        )
    order = _order(providers, agent.models)
    targets: list[str] = []
    for provider, model in entries:
        if provider is not None:
            targets.append(_pinned(providers, provider, model))
        else:
            targets.extend(await _fanned_out(providers, order, model, catalog))
    return tuple(dict.fromkeys(targets))


def _entries(wanted: str | Sequence[Named]) -> tuple[tuple[str | None, str], ...]:
    """Return provider, None for a bare name, and model of each entry; an empty model is unsaid."""
    listed: Sequence[Named] = (wanted,) if isinstance(wanted, str) else wanted
    return tuple(
        split_target(entry if isinstance(entry, str) else _written(entry)) for entry in listed
    )


def _written(target: ModelTarget) -> str:
    return f"{target.provider}:{target.model or ''}" if target.provider else target.model or ""


def _order(providers: Providers, models: Sequence[str]) -> tuple[str, ...]:
    """Return the providers over which a bare name fans out."""
    own = tuple(dict.fromkeys(name for name, _ in map(split_target, models) if name is not None))
    return tuple(name for name in own or BUILT_IN if name != OFFLINE and providers.has_key(name))


def _pinned(providers: Providers, provider: str, model: str) -> str:
    if not model:
        providers.check_provider(provider)
        model = providers.get(provider).meta.default_model or ""
        if not model:
            raise UnknownModelError(
                f"Provider {provider!r} has no default model. {EXAMPLE_FORM}", provider=provider
            )
    target = f"{provider}:{model}"
    providers.check(target)
    return target


async def _fanned_out(
    providers: Providers,
    order: Sequence[str],
    model: str,
    catalog: Mapping[str, ModelInfo] | None,
) -> list[str]:
    knowing = await known_by([*dict.fromkeys([*order, *BUILT_IN])], model, [catalog])
    # A server of one's own may serve any name; a service whose models are known does not.
    able = [name for name in order if name in knowing] or [
        name for name in order if not knowing or not is_covered(name)
    ]
    if able:
        return [f"{name}:{model}" for name in able]
    for name in knowing:
        # Says which key is missing.
        providers.check_provider(name)
    raise UnknownModelError(
        f"Model {model!r} names no provider, and no provider that may know it has a key on this "
        f"worker. {EXAMPLE_FORM}",
        model=model,
    )
