"""What is wrong with sources now: one event when it begins or changes, one when it is over."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.registry import canonical
from bridge.registry.events import SourceCleared, SourceProblem
from bridge.registry.records import Problem
from bridge.registry.tables import problems
from bridge.registry.transaction import Transaction


def read_problems(connection: Connection, subject: str | None = None) -> tuple[Problem, ...]:
    query = sa.select(problems)
    if subject is not None:
        query = query.where(problems.c.subject == canonical.clean(subject))
    found = (Problem(**row) for row in connection.execute(query).mappings())
    return tuple(sorted(found, key=lambda problem: (problem.subject, problem.path)))


def record_problem(tx: Transaction, subject: str, path: str, sentence: str) -> bool:
    """Keep the problem of `subject` at `path`; False if it is known already."""
    key, sentence = _key(subject, path), canonical.clean(sentence)
    row = tx.get(problems, **key)
    if row is not None and row["sentence"] == sentence:
        return False
    if row is None:
        tx.insert(problems, **key, sentence=sentence, since=tx.now)
    else:
        tx.update(problems, key, sentence=sentence, since=tx.now)
    tx.emit(SourceProblem(subject, path, sentence, row["sentence"] if row else None))
    return True


def clear_problem(tx: Transaction, subject: str, path: str | None = None) -> bool:
    """The problem of `subject` at `path` is over; without `path` all of them. False if there was none."""
    rows = tx.find(problems, subject=subject) if path is None else tx.find(problems, **_key(subject, path))
    for row in rows:
        tx.delete(problems, subject=row["subject"], path=row["path"])
        tx.emit(SourceCleared(row["subject"], row["path"], row["sentence"]))
    return bool(rows)


def _key(subject: str, path: str) -> dict[str, str]:
    """Index entries of PostgreSQL are bounded, paths are not."""
    return {"subject": canonical.cut(subject, 1200), "path": canonical.cut(path)}
