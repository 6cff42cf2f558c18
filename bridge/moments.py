"""Times as people write them, and as the registry keeps them: microseconds UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bridge.errors import InvalidArgument

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def parse(text: str, now: int) -> int:
    """The time that `text` names in ISO 8601: with an offset, else in UTC; a date is its first moment.

    Raises InvalidArgument for anything else, and for a time after `now`.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidArgument(
            f"'{text}' is not a time; write it as 2026-03-31T10:00+02:00, or in UTC 2026-03-31T08:00, or 2026-03-31."
        ) from error
    at = _microseconds(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    if at > now:
        raise InvalidArgument(f"The time '{text}' is in the future; it is {describe(now)} now.")
    return at


def describe(at: int) -> str:
    """The time in ISO 8601, UTC, to the microsecond where it is not a whole second."""
    return (_EPOCH + at * _MICROSECOND).isoformat().replace("+00:00", "Z")


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
