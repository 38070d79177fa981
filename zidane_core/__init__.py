"""The core: what an agent run is and how it moves. No I/O, no Temporal."""

from zidane_core.agent import Agent
from zidane_core.authoring import Tool, ToolContext, ToolError, tool
from zidane_core.behavior import AgentBehavior, RetryConfig
from zidane_core.decisions import (
    ChoiceAnswer,
    ChoiceQuestion,
    DecisionFailure,
    DecisionOptions,
    DecisionOutcome,
    DecisionRequest,
    DecisionSuccess,
    PredicateAnswer,
    PredicateQuestion,
    RefusalAnswer,
    ScoreAnswer,
    ScoreQuestion,
)
from zidane_core.errors import AgentError, DecisionError
from zidane_core.events import RunEvent
from zidane_core.runs import RunRequest, RunResult, RunStatus
from zidane_core.usage import AgentStats, TurnUsage, flatten_turns, stats_by_model

__all__ = [
    "Agent",
    "AgentBehavior",
    "AgentError",
    "AgentStats",
    "ChoiceAnswer",
    "ChoiceQuestion",
    "DecisionError",
    "DecisionFailure",
    "DecisionOptions",
    "DecisionOutcome",
    "DecisionRequest",
    "DecisionSuccess",
    "PredicateAnswer",
    "PredicateQuestion",
    "RefusalAnswer",
    "RetryConfig",
    "RunEvent",
    "RunRequest",
    "RunResult",
    "RunStatus",
    "ScoreAnswer",
    "ScoreQuestion",
    "Tool",
    "ToolContext",
    "ToolError",
    "TurnUsage",
    "flatten_turns",
    "stats_by_model",
    "tool",
]
