"""Rollback pins, and where each version's content came from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from bridge.registry.migrations.history import refuse_to_lose_events

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "provenance",
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("tensorflow", sa.Text, nullable=False),
        sa.Column("signatures", sa.Text, nullable=False),
        sa.Column("files", sa.Text, nullable=False),
        sa.Column("found", sa.Text),
        sa.Column("first_seen_at", sa.BigInteger, nullable=False),
        sa.Column("last_seen_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("model", "version", "identity", name=op.f("pk_provenance")),
    )
    op.create_table(
        "rollback_pins",
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("contents", sa.Text, nullable=False),
        sa.Column("entry", sa.Text),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("model", name=op.f("pk_rollback_pins")),
        sa.ForeignKeyConstraint(["model"], ["models.name"], name=op.f("fk_rollback_pins_model_models")),
    )


def downgrade() -> None:
    refuse_to_lose_events()
    op.drop_table("rollback_pins")
    op.drop_table("provenance")
