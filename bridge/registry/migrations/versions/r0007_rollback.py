"""Rollback pins, contents that are kept for them, and where each version came from."""

from __future__ import annotations

from bridge.registry.migrations.history import refuse_to_lose_events

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    refuse_to_lose_events()
