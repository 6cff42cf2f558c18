"""The rule that neighbouring releases share a database: expand first, contract one release later.

A migration that only adds (tables, columns that are nullable or have a default, indexes, views) leaves the database
fit for the release before it, and says so. One that takes away may do so once no release that works with the database
needs it any more; it names its own revision.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

_TABLE = sa.table("schema_compatibility", sa.column("id"), sa.column("revision"), sa.column("works_with"))


def works_with(revision: str, oldest: str) -> None:
    """Releases whose newest revision is `oldest` or later work with the database as migration `revision` leaves it.

    A migration that says nothing leaves a database for its own release alone.
    """
    op.execute(_TABLE.delete())
    op.execute(_TABLE.insert().values(id=1, revision=revision, works_with=oldest))
