"""What the slices of both sides took, and what is made of it."""

from collections import defaultdict
from statistics import median

SLICE_TURNS = 5
"""Few, so that both sides of a slice see the same machine."""
EDGE_TURNS = 20
"""How many turns `first20_ms` and `last20_ms` are about."""
_ALL = slice(None)


class Clock:
    """The milliseconds of each side's slices.

    Args:
        slices: Turns of each slice.
    """

    def __init__(self, slices: list[int]) -> None:
        self.slices = slices
        self._times: dict[str, list[float]] = defaultdict(list)

    def add(self, side: str, ms_per_turn: float) -> None:
        """Take the next slice of a side."""
        self._times[side].append(ms_per_turn)

    def per_turn(self, side: str, part: slice = _ALL) -> float:
        """Return the mean milliseconds of a turn, over all slices or a part of them."""
        weighted = zip(self._times[side][part], self.slices[part], strict=True)
        return sum(ms * turns for ms, turns in weighted) / sum(self.slices[part])

    def edges(self) -> tuple[slice, slice]:
        """Return the slices of the first 20 turns and of the last 20."""
        size = min(EDGE_TURNS // SLICE_TURNS, len(self.slices))
        return slice(0, size), slice(len(self.slices) - size, None)

    def ratio(self, part: slice = _ALL) -> float:
        """Return our mean over the floor's."""
        return self.per_turn("zidane", part) / self.per_turn("floor", part)

    def growth(self) -> float:
        """Return our last turns over our first, each over the floor's at the time, if it ran.

        Without the floor the figure also holds what else the machine did meanwhile.
        """
        first, last = self.edges()
        if "floor" in self._times:
            return self.ratio(last) / self.ratio(first)
        return self.per_turn("zidane", last) / self.per_turn("zidane", first)

    def median_ratio(self) -> float:
        """Return the median of the slices' ratios; what happens seldom is not in it."""
        pairs = zip(self._times["zidane"], self._times["floor"], strict=True)
        return median(ours / floor for ours, floor in pairs)
