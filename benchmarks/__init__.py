"""Benchmarks: each prints its figures with their budgets, then one line of JSON.

`python -m benchmarks.turns`, `.long_conversation`, `.concurrency`, `.crash`. They start their own
embedded server and worker processes in a temporary folder, and measure ours beside a floor: a
bare Temporal workflow that does as many activities of the same kinds (`floor.py`).
"""
