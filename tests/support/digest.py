"""Prints a digest of all that a fixed run asks for: the same in every process, or it is a bug."""

import hashlib
import json
import sys

from tests.support.loop_driver import LoopDriver, failure, note
from zidane_core.behavior import AgentBehavior
from zidane_core.manifest import RunManifest
from zidane_core.tool_state import ToolStateOp
from zidane_core.tools import ToolSpec


def fixed_run() -> LoopDriver:
    driver = LoopDriver.started(AgentBehavior(max_concurrent_tools=3))
    driver.turn(*(note(f"c{n}", safe=n != 2) for n in range(5)))
    driver.called("c1", *(ToolStateOp(key=key, value=key) for key in "zyxwv"))
    driver.send("steer", {"prompt": "s", "id": "s"})
    driver.called("c0")
    driver.fail(failure())
    driver.send("follow_up", {"prompt": "f", "id": "f"})
    driver.send("pause")
    driver.wind_down()
    return driver


def main() -> None:
    driver = fixed_run()
    tools = tuple(ToolSpec(name=f"t{n}", input_schema={"b": n, "a": [n]}) for n in range(9))
    manifest = RunManifest(agent="a", system="s", targets=("x:y",), tools=tools, workspace="/w")
    asked = [[request.packed() for request in step.requests] for step in driver.steps]
    whole = json.dumps([asked, driver.state.packed(), manifest.content_hash()])
    sys.stdout.write(hashlib.sha256(whole.encode()).hexdigest())


if __name__ == "__main__":
    main()
