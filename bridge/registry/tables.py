"""The tables. Times are integer microseconds UTC, JSON is text in the form of `bridge.registry.canonical`."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

meta = Table(
    "meta",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("deployment_id", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("last_generation", BigInteger, nullable=False, server_default="0"),
    Column("epoch", BigInteger, nullable=False, server_default="1"),
    CheckConstraint("id = 1", name="one_row"),
)
"""`last_generation` is that of the model registered last, whether it is still there or not.

`epoch` counts the beginnings of this history: one, and one for each time that it was restored or imported.
"""

models = Table(
    "models",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("base_path", Text, nullable=False),
    Column("platform", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("logging", Text, nullable=False, server_default="{}"),
    Column("present", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    CheckConstraint("owner in ('config', 'modelmesh', 'admin')", name="owner"),
)
"""A model that was removed keeps its row with `present` false, so that its versions keep their history."""

model_versions = Table(
    "model_versions",
    metadata,
    Column("model", Text, ForeignKey("models.name"), primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("state", Integer, nullable=False),
    Column("code", Integer, nullable=False),
    Column("message", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("first_seen_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    CheckConstraint("state in (0, 10, 20, 30, 40, 50)", name="state"),
)

version_labels = Table(
    "version_labels",
    metadata,
    Column("model", Text, ForeignKey("models.name"), primary_key=True),
    Column("label", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

registered_models = Table(
    "registered_models",
    metadata,
    Column("id", Text, primary_key=True),
    Column("type", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("auto_delete", Boolean, nullable=False),
    Column("generation", BigInteger, nullable=False, unique=True),
    Column("last_used_at", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

load_failures = Table(
    "load_failures",
    metadata,
    Column("model", Text, ForeignKey("registered_models.id"), primary_key=True),
    Column("instance", Text, primary_key=True),
    Column("code", Integer, nullable=False),
    Column("message", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)

vmodels = Table(
    "vmodels",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("active", Text, ForeignKey("registered_models.id"), nullable=False, index=True),
    Column("target", Text, ForeignKey("registered_models.id"), nullable=False, index=True),
    Column("target_failed", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

instances = Table(
    "instances",
    metadata,
    Column("name", Text, primary_key=True),
    Column("grpc", Text, nullable=False),
    Column("http", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    CheckConstraint("state in ('unknown', 'up', 'lost')", name="state"),
)

copies = Table(
    "copies",
    metadata,
    Column("instance", Text, ForeignKey("instances.name"), primary_key=True),
    Column("triton_name", Text, primary_key=True),
    Column("model", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("state", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("last_used_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    CheckConstraint("state in (0, 10, 20, 30, 40, 50)", name="state"),
)

problems = Table(
    "problems",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("sentence", Text, nullable=False),
    Column("since", BigInteger, nullable=False),
)

config_revisions = Table(
    "config_revisions",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("origin", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("current", Boolean, nullable=False),
    CheckConstraint("outcome in ('applied', 'rejected')", name="outcome"),
    Index(
        "uq_config_revisions_current",
        "current",
        unique=True,
        sqlite_where=text("current"),
        postgresql_where=text("current"),
    ),
)

events = Table(
    "events",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("before", Text),
    Column("after", Text),
    Column("reason", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("mac", Text),
    Index("ix_events_at", "at"),
    Index("ix_events_subject", "subject", "seq"),
    Index("ix_events_action", "action", "seq"),
    Index("ix_events_actor", "actor", "seq"),
)
"""Append-only: `bridge.registry.guards` refuse every other change, but to delete what an archive holds."""

archives = Table(
    "archives",
    metadata,
    Column("sealed_upto", BigInteger, primary_key=True, autoincrement=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("mac", Text),
    Column("file", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("archived_at", BigInteger, nullable=False),
)
"""Append-only: events from `first_seq` to `sealed_upto` are in `file`. `at`, `hash` and `mac` are those of the last."""

kept_events = Table(
    "kept_events",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("previous_hash", Text, nullable=False),
)
"""Archived events that stay in `events`, for what is asked of later times; each with the hash before it."""

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)
"""`expires_at` is on the database's clock. `fence` grows with each change of holder."""
