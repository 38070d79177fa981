"""Model services behind one protocol; `registry.Providers` finds them by name."""
