"""Sealing and archiving of old events, and epochs of the chain."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from bridge.registry import guards
from bridge.registry.migrations.history import refuse_to_lose_events
from bridge.registry.migrations.versions import r0001_registry

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("meta", sa.Column("epoch", sa.BigInteger, nullable=False, server_default="1"))
    op.create_table(
        "archives",
        sa.Column("sealed_upto", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("first_seq", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("mac", sa.Text),
        sa.Column("file", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("archived_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("sealed_upto", name=op.f("pk_archives")),
    )
    op.create_table(
        "kept_events",
        sa.Column("seq", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("previous_hash", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_kept_events")),
    )
    guards.install(op.get_bind())


def downgrade() -> None:
    refuse_to_lose_events()
    guards.remove(op.get_bind())
    op.drop_table("kept_events")
    op.drop_table("archives")
    op.drop_column("meta", "epoch")
    if op.get_bind().dialect.name == "postgresql":
        for table in guards.GUARDED:
            op.execute(f"drop function refuse_change_of_{table}()")
        r0001_registry.protect_events_on_postgresql()
    else:
        r0001_registry.protect_events_on_sqlite()
