"""The agent of `zidane demo`: the basic tools, and a log with a line for each body that is run."""

import os
from pathlib import Path

from activities.toolbox import basic_tools
from activities.toolbox.basic_agent import SYSTEM
from zidane_core.agent import Agent
from zidane_core.hooks import ToolHook

LOG_VARIABLE = "ZIDANE_DEMO_LOG"


def log_call(call: ToolHook) -> None:
    """Append a line before a tool's body runs: two lines for a call mean that it ran twice."""
    line = f"{call.turn_id} {call.call_id} {call.name}\n"
    with Path(os.environ[LOG_VARIABLE]).open("a", encoding="utf-8") as log:
        log.write(line)


agent = Agent("demo", system=SYSTEM, tools=basic_tools, hooks={"tool:before": log_call})
