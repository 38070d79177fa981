"""A clock that a test owns: the same calls give the same times, ids and numbers."""

from zidane_core.clock import uuid4_of


class CountingClock:
    """AgentClock that counts; `now` moves only when a test moves it."""

    def __init__(self, now: int = 1_000_000, *, random: float = 0.5) -> None:
        self.time = now
        self.fraction = random
        self._ids = 0

    def now(self) -> int:
        return self.time

    def random_uuid(self) -> str:
        self._ids += 1
        return uuid4_of(self._ids * 0x9E3779B97F4A7C15F39CC0605CEDC835)

    def random(self) -> float:
        return self.fraction
