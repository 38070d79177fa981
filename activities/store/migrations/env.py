"""Alembic's environment: renders the steps as SQL; a store's own driver runs them on opening."""

from alembic import context

from activities.store.tables import metadata

context.configure(
    dialect_name=context.config.get_main_option("dialect"),
    target_metadata=metadata,
    version_table="zidane_schema",
    as_sql=True,
    literal_binds=True,
    transactional_ddl=False,
    output_buffer=context.config.output_buffer,
)
context.run_migrations()
