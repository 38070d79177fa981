"""After a provider refused the history itself: what the next request leaves out."""

from zidane_core.context.repairs import MAX_SHORTENINGS
from zidane_core.errors import ProviderFailure
from zidane_core.requests import RepairOrder


def after_refusal(
    failure: ProviderFailure, given: tuple[RepairOrder, ...]
) -> tuple[RepairOrder, ...] | None:
    """Return the repairs of the next request, or None when nothing more can be left out.

    A context that is too long is shortened up to three times, each deeper; any other fault of
    the history is mended once per turn, so that a service that always refuses ends the turn.

    Args:
        failure: Why the request was refused.
        given: Repairs that this turn's requests already had.

    Implements: LOOP-14, K-ANTHROPIC-09.
    """
    if failure.kind == "context_exceeded":
        level = next((order.level for order in given if order.kind == "long"), 0) + 1
        if level > MAX_SHORTENINGS:
            return None
        others = tuple(order for order in given if order.kind != "long")
        return (*others, RepairOrder(kind="long", level=level))
    if failure.repair is None or any(order.kind != "long" for order in given):
        return None
    return (*given, RepairOrder(kind=failure.repair))
