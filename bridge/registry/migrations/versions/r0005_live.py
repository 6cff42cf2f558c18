"""What was live when: versions and slots of events, processes with their heartbeats, and the views of the history."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from bridge.registry import derived
from bridge.registry.migrations.history import refuse_to_lose_events

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("events", sa.Column("version", sa.BigInteger))
    op.create_index("ix_events_actor_action", "events", ["actor", "action", "seq"])
    op.create_table(
        "subjects",
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("slot", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("subject", "slot", name=op.f("pk_subjects")),
    )
    op.create_table(
        "live",
        sa.Column("selector", sa.Text, nullable=False),
        sa.Column("state", sa.Text),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("selector", name=op.f("pk_live")),
    )
    op.create_table(
        "processes",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_processes")),
    )
    op.create_index("ix_processes_started_at", "processes", ["started_at"])
    derived.install(op.get_bind())


def downgrade() -> None:
    refuse_to_lose_events()
    derived.remove(op.get_bind())
    for table in ("processes", "live", "subjects"):
        op.drop_table(table)
    op.drop_index("ix_events_actor_action", "events")
    op.drop_column("events", "version")
