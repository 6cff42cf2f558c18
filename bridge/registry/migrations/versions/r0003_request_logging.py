"""How the requests to a model are logged."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from bridge.registry.migrations.history import refuse_to_lose_events

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("models", sa.Column("logging", sa.Text, nullable=False, server_default="{}"))


def downgrade() -> None:
    refuse_to_lose_events()
    op.drop_column("models", "logging")
