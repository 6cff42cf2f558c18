"""Several bridges on one database: who lives, what they serve by, and which releases may use this schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from bridge.registry.migrations.compatibility import works_with
from bridge.registry.migrations.history import refuse_to_lose_events

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("meta", sa.Column("replica_secret", sa.Text, nullable=True))
    op.create_table(
        "replicas",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("release", sa.Text, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_replicas")),
    )
    op.create_table(
        "routers",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("replica", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_routers")),
    )
    op.create_table(
        "published_routes",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_published_routes")),
        sa.CheckConstraint("id = 1", name=op.f("ck_published_routes_one_row")),
    )
    op.create_table(
        "schema_compatibility",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("revision", sa.Text, nullable=False),
        sa.Column("works_with", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schema_compatibility")),
        sa.CheckConstraint("id = 1", name=op.f("ck_schema_compatibility_one_row")),
    )
    works_with(revision, "0008")


def downgrade() -> None:
    refuse_to_lose_events()
    for table in ("schema_compatibility", "published_routes", "routers", "replicas"):
        op.drop_table(table)
    op.drop_column("meta", "replica_secret")
