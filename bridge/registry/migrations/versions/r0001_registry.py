"""Models, versions, labels, instances, copies, config revisions, and the append-only events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from bridge.registry.migrations.history import refuse_to_lose_events

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

STATES = "state in (0, 10, 20, 30, 40, 50)"


def upgrade() -> None:
    create_models()
    create_versions()
    create_instances()
    create_configuration()
    create_events()
    if op.get_bind().dialect.name == "postgresql":
        protect_events_on_postgresql()
    else:
        protect_events_on_sqlite()


def downgrade() -> None:
    refuse_to_lose_events()
    for table in (
        "events",
        "config_revisions",
        "problems",
        "copies",
        "instances",
        "vmodels",
        "version_labels",
        "model_versions",
        "models",
        "meta",
    ):
        op.drop_table(table)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("drop function refuse_change_of_events()")


def text(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def create_models() -> None:
    op.create_table(
        "meta",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        text("deployment_id"),
        number("created_at"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_meta")),
        sa.CheckConstraint("id = 1", name=op.f("ck_meta_one_row")),
    )
    op.create_table(
        "models",
        text("name"),
        text("owner"),
        text("base_path"),
        text("platform"),
        text("policy"),
        sa.Column("present", sa.Boolean, nullable=False),
        number("created_at"),
        number("updated_at"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_models")),
        sa.CheckConstraint("owner in ('config', 'modelmesh', 'admin')", name=op.f("ck_models_owner")),
    )
    op.create_table(
        "vmodels",
        text("id"),
        text("owner"),
        text("active"),
        text("target"),
        sa.Column("target_failed", sa.Boolean, nullable=False),
        number("created_at"),
        number("updated_at"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_vmodels")),
    )


def create_versions() -> None:
    op.create_table(
        "model_versions",
        text("model"),
        sa.Column("version", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("state", sa.Integer, nullable=False),
        sa.Column("code", sa.Integer, nullable=False),
        text("message"),
        text("path"),
        text("fingerprint"),
        number("size"),
        number("first_seen_at"),
        number("updated_at"),
        sa.PrimaryKeyConstraint("model", "version", name=op.f("pk_model_versions")),
        sa.ForeignKeyConstraint(["model"], ["models.name"], name=op.f("fk_model_versions_model_models")),
        sa.CheckConstraint(STATES, name=op.f("ck_model_versions_state")),
    )
    op.create_table(
        "version_labels",
        text("model"),
        text("label"),
        number("version"),
        number("updated_at"),
        sa.PrimaryKeyConstraint("model", "label", name=op.f("pk_version_labels")),
        sa.ForeignKeyConstraint(["model"], ["models.name"], name=op.f("fk_version_labels_model_models")),
    )


def create_instances() -> None:
    op.create_table(
        "instances",
        text("name"),
        text("grpc"),
        text("http"),
        text("owner"),
        text("state"),
        text("reason"),
        number("created_at"),
        number("updated_at"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_instances")),
        sa.CheckConstraint("state in ('unknown', 'up', 'lost')", name=op.f("ck_instances_state")),
    )
    op.create_table(
        "copies",
        text("instance"),
        text("triton_name"),
        text("model"),
        number("version"),
        sa.Column("state", sa.Integer, nullable=False),
        number("size"),
        number("last_used_at"),
        number("updated_at"),
        sa.PrimaryKeyConstraint("instance", "triton_name", name=op.f("pk_copies")),
        sa.ForeignKeyConstraint(["instance"], ["instances.name"], name=op.f("fk_copies_instance_instances")),
        sa.CheckConstraint(STATES, name=op.f("ck_copies_state")),
    )


def create_configuration() -> None:
    op.create_table(
        "problems",
        text("subject"),
        text("path"),
        text("sentence"),
        number("since"),
        sa.PrimaryKeyConstraint("subject", "path", name=op.f("pk_problems")),
    )
    op.create_table(
        "config_revisions",
        sa.Column("revision", sa.BigInteger, nullable=False, autoincrement=False),
        text("origin"),
        text("content_hash"),
        text("text"),
        text("outcome"),
        text("error"),
        number("at"),
        sa.Column("current", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_config_revisions")),
        sa.CheckConstraint("outcome in ('applied', 'rejected')", name=op.f("ck_config_revisions_outcome")),
    )
    op.create_index(
        "uq_config_revisions_current",
        "config_revisions",
        ["current"],
        unique=True,
        sqlite_where=sa.text("current"),
        postgresql_where=sa.text("current"),
    )


def create_events() -> None:
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger, nullable=False, autoincrement=False),
        number("at"),
        text("actor"),
        text("source"),
        text("subject"),
        text("action"),
        text("before", nullable=True),
        text("after", nullable=True),
        text("reason"),
        text("request_id"),
        text("hash"),
        text("mac", nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
    )
    op.create_index("ix_events_at", "events", ["at"])
    for column in ("subject", "action", "actor"):
        op.create_index(f"ix_events_{column}", "events", [column, "seq"])


def protect_events_on_sqlite() -> None:
    """REPLACE deletes rows without firing delete triggers: the guard on insert refuses it by its sequence number."""
    for change in ("update", "delete"):
        op.execute(
            f"create trigger events_{change} before {change} on events"
            " begin select raise(abort, 'events is append-only'); end"
        )
    op.execute(
        "create trigger events_insert before insert on events"
        " when new.seq <> coalesce((select max(seq) from events), 0) + 1"
        " begin select raise(abort, 'events is append-only'); end"
    )


def protect_events_on_postgresql() -> None:
    """ENABLE ALWAYS, because plain triggers do not fire under session_replication_role = replica."""
    op.execute(
        "create function refuse_change_of_events() returns trigger language plpgsql as"
        " $$ begin raise exception 'events is append-only' using errcode = 'integrity_constraint_violation'; end $$"
    )
    op.execute(
        "create trigger events_change before update or delete on events"
        " for each row execute function refuse_change_of_events()"
    )
    op.execute(
        "create trigger events_truncate before truncate on events"
        " for each statement execute function refuse_change_of_events()"
    )
    op.execute("alter table events enable always trigger events_change")
    op.execute("alter table events enable always trigger events_truncate")
