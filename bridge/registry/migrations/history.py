"""The rule that every downgrade keeps: history is not dropped by accident."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

from bridge.errors import FailedPrecondition


def refuse_to_lose_events() -> None:
    """Raise FailedPrecondition if events exist, unless `-x destroy_history=true` or the caller allowed it."""
    events = op.get_bind().execute(sa.text("select count(*) from events")).scalar_one()
    if events and not _allowed():
        raise FailedPrecondition(
            f"A downgrade could lose the {events} recorded events; to accept that, say --destroy-history."
        )


def _allowed() -> bool:
    allowed = context.config.attributes.get("destroy_history")
    if allowed is None:
        allowed = context.get_x_argument(as_dictionary=True).get("destroy_history") == "true"
    return bool(allowed)
