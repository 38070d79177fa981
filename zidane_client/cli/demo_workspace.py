"""The little project that the demo's agent repairs."""

import asyncio
import sys
from pathlib import Path

PROMPT = "The tests fail. Find out why, fix it, leave a note."

_FILES = {
    "README.md": "# shop\n\nA cart. Run the tests with `python3 -m unittest -q`.\n",
    "shop/__init__.py": '"""A small shop."""\n',
    "shop/cart.py": '''"""A cart with a discount."""


class Cart:
    """Adds up lines; `discount` is a fraction of the total."""

    def __init__(self, discount=0.0):
        self.discount = discount
        self.lines = []

    def add(self, price, count=1):
        self.lines.append(count * price * (1 - self.discount))

    def total(self):
        return round(sum(self.lines) * (1 - self.discount), 2)
''',
    "tests/__init__.py": "",
    "tests/test_cart.py": """import unittest

from shop.cart import Cart


class CartTest(unittest.TestCase):
    def test_a_cart_adds_up(self):
        cart = Cart()
        cart.add(20)
        cart.add(2.5, count=2)
        self.assertEqual(cart.total(), 25)

    def test_a_discount_is_taken_once(self):
        cart = Cart(discount=0.1)
        cart.add(100)
        self.assertEqual(cart.total(), 90)
""",
}


def make_workspace(folder: Path) -> None:
    """Write the project, with its bug, into a new folder."""
    for name, text in _FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


async def tests_pass(folder: Path) -> bool:
    """Run the project's tests and say whether they pass."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "unittest", "-q",
        cwd=folder, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    return await process.wait() == 0
