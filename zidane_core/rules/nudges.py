"""Should the model be advised: advice goes with the next turn and never stops anything."""

from zidane_core.behavior import ThinkingOverrun

THINKING_OVERRUN = (
    "Your last turn reasoned at length. Prefer a concrete next step: call a tool, or answer."
)


def thinking_overrun(policy: ThinkingOverrun | None, thinking_tokens: int) -> str | None:
    """Return the advice to a model that reasoned past the threshold, or None.

    Implements: NUDGE-10, THNK-10.
    """
    if policy is None or policy.mode == "off" or thinking_tokens <= policy.threshold_tokens:
        return None
    return policy.message or THINKING_OVERRUN
