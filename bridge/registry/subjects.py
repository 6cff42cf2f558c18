"""The subjects of the history, and which of them somebody means."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.errors import InvalidArgument, NotFound
from bridge.registry import canonical
from bridge.registry.events import SERVER
from bridge.registry.tables import subjects

KINDS = ("model", "label", "vmodel", "instance")
SHOWN = 10
"""Candidates that an error lists."""


def read_subjects(connection: Connection, prefix: str = "") -> tuple[str, ...]:
    """The subjects that begin with `prefix`, in order."""
    query = sa.select(subjects.c.subject).distinct()
    if prefix:
        query = query.where(subjects.c.subject.startswith(canonical.clean(prefix), autoescape=True))
    return tuple(sorted(connection.execute(query).scalars()))


def find_subject(connection: Connection, text: str) -> str:
    """The subject that `text` names: in full, or by its name where only one has that name.

    A label may be named by itself or as MODEL/LABEL. Raises NotFound, and InvalidArgument for a name of several.
    """
    name = canonical.clean(text)
    kind, separator, rest = name.partition(":")
    if name == SERVER or (separator and kind in KINDS):
        return _known(connection, name, f"The history knows no {kind} '{canonical.cut(rest)}'.")
    found = _called(connection, name)
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(f"The history knows nothing called '{canonical.cut(name)}'.")
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    raise InvalidArgument(
        f"'{canonical.cut(name)}' may mean {', '.join(found[:SHOWN])}{more}; name one of them in full."
    )


def _known(connection: Connection, subject: str, sentence: str) -> str:
    query = sa.select(subjects.c.subject).where(subjects.c.subject == subject).limit(1)
    if connection.execute(query).first() is None:
        raise NotFound(sentence)
    return subject


def _called(connection: Connection, name: str) -> list[str]:
    full = [f"{kind}:{name}" for kind in KINDS]
    label = sa.and_(
        subjects.c.subject.startswith("label:", autoescape=True),
        subjects.c.subject.endswith(f"/{name}", autoescape=True),
    )
    query = sa.select(subjects.c.subject).distinct().where(sa.or_(subjects.c.subject.in_(full), label))
    return sorted(connection.execute(query).scalars())
