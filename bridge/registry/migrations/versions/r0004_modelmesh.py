"""Registered models with their load failures; vmodels refer to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from bridge.registry.migrations.history import refuse_to_lose_events

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

REFERENCES = ("active", "target")


def upgrade() -> None:
    op.add_column("meta", sa.Column("last_generation", sa.BigInteger, nullable=False, server_default="0"))
    op.create_table(
        "registered_models",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("auto_delete", sa.Boolean, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("last_used_at", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_registered_models")),
        sa.UniqueConstraint("generation", name=op.f("uq_registered_models_generation")),
    )
    op.create_table(
        "load_failures",
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("instance", sa.Text, nullable=False),
        sa.Column("code", sa.Integer, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("model", "instance", name=op.f("pk_load_failures")),
        sa.ForeignKeyConstraint(
            ["model"], ["registered_models.id"], name=op.f("fk_load_failures_model_registered_models")
        ),
    )
    with op.batch_alter_table("vmodels") as vmodels:
        for column in REFERENCES:
            vmodels.create_foreign_key(foreign_key(column), "registered_models", [column], ["id"])
            vmodels.create_index(index(column), [column])


def downgrade() -> None:
    refuse_to_lose_events()
    with op.batch_alter_table("vmodels") as vmodels:
        for column in REFERENCES:
            vmodels.drop_index(index(column))
            vmodels.drop_constraint(foreign_key(column), type_="foreignkey")
    op.drop_table("load_failures")
    op.drop_table("registered_models")
    op.drop_column("meta", "last_generation")


def foreign_key(column: str) -> str:
    return str(op.f(f"fk_vmodels_{column}_registered_models"))


def index(column: str) -> str:
    return f"ix_vmodels_{column}"
