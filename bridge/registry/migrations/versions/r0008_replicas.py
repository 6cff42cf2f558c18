"""Several bridges on one database."""

from __future__ import annotations

from bridge.registry.migrations.history import refuse_to_lose_events

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    refuse_to_lose_events()
