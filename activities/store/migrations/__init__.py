"""Alembic's environment and versions; `statements.py` renders them to the SQL that opening runs."""
