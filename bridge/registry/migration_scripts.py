"""Runs the migration scripts by Alembic. Imported only where the schema has to change."""

from __future__ import annotations

import os

from alembic import command
from alembic.config import Config
from sqlalchemy.engine import Connection

from bridge.registry import migrations


def config() -> Config:
    """Alembic's configuration for the scripts of this release."""
    config = Config()
    config.set_main_option("script_location", os.path.dirname(migrations.__file__).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(connection: Connection, revision: str) -> None:
    """Go forward to `revision` within the transaction of `connection`."""
    command.upgrade(_on(connection), revision)


def downgrade(connection: Connection, revision: str, *, destroy_history: bool) -> None:
    """Go back to `revision`. Raises FailedPrecondition while events exist unless `destroy_history`."""
    on = _on(connection)
    on.attributes["destroy_history"] = destroy_history
    command.downgrade(on, revision)


def _on(connection: Connection) -> Config:
    on = config()
    on.attributes["connection"] = connection
    return on
