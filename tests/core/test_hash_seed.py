import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def digest(seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.digest"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_two_hash_seeds_give_the_same_requests():
    """CLK-06, DUR-09: no set is iterated where its order can reach a request."""
    first = digest("1")
    assert len(first) == 64
    assert digest("2") == first
