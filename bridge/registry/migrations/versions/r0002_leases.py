"""Leases with fencing numbers, for several bridges on one database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from bridge.registry.migrations.history import refuse_to_lose_events

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )


def downgrade() -> None:
    refuse_to_lose_events()
    op.drop_table("leases")
