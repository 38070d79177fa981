"""Where a run's times and ids come from. In a workflow both come from Temporal."""

from typing import Protocol


class AgentClock(Protocol):
    """Source of the times and ids that are part of a run's record.

    Durations that only people look at (time to first token, elapsed) do not come from here:
    they are measured where they happen and journaled with the receipt.

    Implements: CLK-01, CLK-04.
    """

    def now(self) -> int:
        """Return the time in milliseconds since the epoch."""
        ...

    def random_uuid(self) -> str:
        """Return a new RFC 4122 version 4 UUID as text."""
        ...

    def random(self) -> float:
        """Return a number in [0, 1), from a stream apart from the ids' (jitter)."""
        ...


def uuid4_of(bits: int) -> str:
    """Return 128 random bits as a version 4 UUID, for clocks with randomness of their own."""
    digits = f"{bits & (1 << 128) - 1:032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
