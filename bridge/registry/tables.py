"""The tables. Times are integer microseconds UTC, JSON is text in the form of `bridge.registry.canonical`."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    FetchedValue,
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
    Column("replica_secret", Text),
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

provenance = Table(
    "provenance",
    metadata,
    Column("model", Text, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("identity", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("tensorflow", Text, nullable=False),
    Column("signatures", Text, nullable=False),
    Column("files", Text, nullable=False),
    Column("found", Text),
    Column("first_seen_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
)
"""A row for each content of a version. Files keep what their digests were taken of, so that few are read again."""

rollback_pins = Table(
    "rollback_pins",
    metadata,
    Column("model", Text, ForeignKey("models.name"), primary_key=True),
    Column("contents", Text, nullable=False),
    Column("entry", Text),
    Column("since", BigInteger, nullable=False),
)
"""`entry` is the model's entry in the configuration at that time, null for none."""

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
    Column("version", BigInteger),
    Column("slot", Text, FetchedValue()),
    Index("ix_events_at", "at"),
    Index("ix_events_subject", "subject", "seq"),
    Index("ix_events_action", "action", "seq"),
    Index("ix_events_actor", "actor", "seq"),
    Index("ix_events_actor_action", "actor", "action", "seq"),
    Index("ix_events_slot", "subject", "slot", "seq"),
)
"""Append-only: `bridge.registry.guards` refuse every other change, but to delete what an archive holds.

The database generates `slot` (`bridge.registry.slots`).
"""

subjects = Table(
    "subjects",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("slot", Text, primary_key=True),
)
"""The subjects that events name, with the slots in which they have any; kept by a trigger."""

live = Table(
    "live",
    metadata,
    Column("selector", Text, primary_key=True),
    Column("state", Text),
    Column("since", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
)
"""The last move of each selector: `after`, `at` and `seq` of its event; kept by a trigger."""

processes = Table(
    "processes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("heartbeat_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Index("ix_processes_started_at", "started_at"),
)
"""Bridge processes and when each was last known to live."""

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

replicas = Table(
    "replicas",
    metadata,
    Column("name", Text, primary_key=True),
    Column("address", Text, nullable=False),
    Column("release", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)
"""Bridges on this database; `address` is where the others reach it. Times are on the database's clock."""

routers = Table(
    "routers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("replica", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)
"""Request paths: each holds no request older than `epoch`. `expires_at` is on the database's clock."""

published_routes = Table(
    "published_routes",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)
"""The leader's newest routes snapshot."""

schema_compatibility = Table(
    "schema_compatibility",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", Text, nullable=False),
    Column("works_with", Text, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)
"""`works_with` is the newest revision of the oldest release that works with the schema at `revision`."""
