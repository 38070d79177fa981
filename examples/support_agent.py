"""A support agent with a tool of its own: a refund that is never made twice.

zidane dev --agents examples.support_agent:agent
zidane run support "Refund order 12, it is late" --model anthropic:claude-sonnet-5-5
"""

from zidane_core import Agent, AgentBehavior, ToolContext, ToolError, tool

ORDERS = {"12": 4_900, "13": 1_250}
"""Order id to its price in cents; a real one would ask a shop."""


@tool(read_only=True, concurrency_safe=True)
async def find_order(order_id: str) -> dict[str, str | int]:
    """Look an order up by its id."""
    if order_id not in ORDERS:
        raise ToolError(f"There is no order {order_id!r}. Known: {sorted(ORDERS)}.")
    return {"order_id": order_id, "cents": ORDERS[order_id], "state": "late"}


@tool(idempotent=False)
async def refund(ctx: ToolContext, order_id: str, cents: int) -> str:
    """Refund an order, in cents."""
    # A call id is unique and the same on every retry: hand it to the bank as idempotency key.
    ctx.state.set("last_refund", {"order_id": order_id, "cents": cents, "key": ctx.call_id})
    return f"Refunded {cents} cents of order {order_id}."


agent = Agent(
    "support",
    system="You help the customers of a small shop. Look an order up before you refund it.",
    tools=[find_order, refund],
    behavior=AgentBehavior(max_turns=50, max_cost_usd=1.0),
)
