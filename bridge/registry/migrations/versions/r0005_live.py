"""What was live when: selectors, processes with their heartbeats, and the views of the history."""

from __future__ import annotations

from bridge.registry.migrations.history import refuse_to_lose_events

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    refuse_to_lose_events()
