"""Every scenario, of all the books."""

from collections.abc import Mapping

from tests.scenarios import answers
from tests.scenarios.book import BOOK as _BOOK
from tests.scenarios.book import Scenario

BOOK: Mapping[str, Scenario] = _BOOK
"""By name; a module of scenarios enters its own when it is imported."""

__all__ = ["BOOK", "Scenario", "answers"]
