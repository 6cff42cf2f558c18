"""Sealing and archiving of old events, and epochs of the chain."""

from __future__ import annotations

from bridge.registry.migrations.history import refuse_to_lose_events

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    refuse_to_lose_events()
