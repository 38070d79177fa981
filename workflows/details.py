"""What the Temporal UI shows of a run while it works; no event, read by a query."""

from zidane_core.state import RunState


def current_details(state: RunState) -> str:
    """Return phase, turn, cost, open question and last text as Markdown."""
    totals = state.totals
    head = f"**{state.phase.value}**, turn {state.turn}"
    if totals.cost:
        head += f", ${totals.cost:.4f}"
    lines = [head, f"{totals.total_in} tokens in, {totals.total_out} out"]
    if state.reason:
        lines.append(f"Reason: {state.reason}")
    lines.extend(f"Question `{question.call_id}`: {question.text}" for question in state.questions)
    if state.last_text:
        lines.append(f"> {state.last_text}")
    return "\n\n".join(lines)
