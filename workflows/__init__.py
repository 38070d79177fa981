"""The workflow side: Temporal, and nothing that touches the world."""
