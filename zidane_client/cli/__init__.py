"""The `zidane` command."""
