"""One file per step of the schema; a step is never edited after a release."""
