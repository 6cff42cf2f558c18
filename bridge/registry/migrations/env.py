"""Alembic's entry: one transaction for all revisions, on the registry's own kind of connection.

The database is the connection that the caller hands over, or `-x url=URL`, or BRIDGE_DATABASE_URL, or sqlalchemy.url
of alembic.ini.
"""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import Connection

from bridge.registry.database import Database
from bridge.registry.tables import metadata


def database_url() -> str:
    """Where the command line or the environment say the database is."""
    named = context.get_x_argument(as_dictionary=True).get("url") or os.environ.get("BRIDGE_DATABASE_URL")
    url = named or context.config.get_main_option("sqlalchemy.url")
    if not url:
        raise SystemExit("Say which database: -x url=URL or BRIDGE_DATABASE_URL.")
    return url


def migrate(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()


def main() -> None:
    if context.is_offline_mode():
        raise SystemExit("Migrations need a database: the offline mode is not offered.")
    connection: Connection | None = context.config.attributes.get("connection")
    if connection is not None:
        migrate(connection)
        return
    database = Database.connect(database_url())
    try:
        database.alter(migrate)
    finally:
        database.close()


main()
