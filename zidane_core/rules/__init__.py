"""Pure rules, each over its own small state."""
