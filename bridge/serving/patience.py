"""How long one request goes on trying, and how often it may be sent."""

from __future__ import annotations

import asyncio

from bridge.errors import BridgeError, Code, DeadlineExceeded, Unavailable
from bridge.serving.destination import NotLoaded
from bridge.serving.routes import Destination, ServableRoute
from bridge.triton.calls import CallError, Fault

TIMED_OUT = "Timed out waiting for notification"
"""What TensorFlow's session says past a deadline."""

REPEAT_DEMAND = 1.0
"""Seconds until a model is demanded again: it may have come and gone unseen."""


class Patience:
    """The time that one request has, and whether it may have run already.

    `timeout` is that of the client. A wait for copies takes `recovery_wait` at most, one for the load of a registered
    model `load_wait`; seconds all.
    """

    def __init__(self, timeout: float, recovery_wait: float, load_wait: float) -> None:
        self._now = asyncio.get_running_loop().time
        self._deadline = self._now() + timeout
        self._recovery_wait = recovery_wait
        self._load_wait = load_wait
        self._recovery_end: float | None = None
        self._load_end: float | None = None
        self._may_have_run = False
        self._reason = ""
        self._demanded = ""
        self._demanded_at = 0.0
        self._failures_before = 0

    def remaining(self) -> float:
        """Seconds to the deadline. Raises DeadlineExceeded past it."""
        remaining = self._deadline - self._now()
        if remaining <= 0:
            raise DeadlineExceeded(TIMED_OUT)
        return remaining

    def recovery_remaining(self) -> float:
        """Seconds that are left to wait for a copy; the wait begins with the first call."""
        if self._recovery_end is None:
            self._recovery_end = min(self._now() + self._recovery_wait, self._deadline)
        return self._recovery_end - self._now()

    def load_remaining(self) -> float:
        """Seconds that are left to wait for a registered model; the wait begins with the first call."""
        if self._load_end is None:
            self._load_end = min(self._now() + self._load_wait, self._deadline)
        return self._load_end - self._now()

    def demands(self, need: NotLoaded) -> bool:
        """Whether to demand the model that is not loaded: at first, and now and then while it is not.

        Raises BridgeError when a demand made for this request failed, or when its time is over.
        """
        number = need.failure.number if need.failure else 0
        if need.model_id != self._demanded:
            self._demanded, self._failures_before = need.model_id, number
        elif need.failure and number != self._failures_before:
            raise BridgeError(need.failure.message, need.failure.code)
        elif self._now() < self._demanded_at + REPEAT_DEMAND:
            self._check_load_time(need)
            return False
        self._check_load_time(need)
        self._demanded_at = self._now()
        return True

    def refuse_or_retry(self, error: CallError, destination: Destination) -> None:
        """Return if the request may be sent again, else raise what the client is to see."""
        if error.fault is Fault.MODEL:
            raise error
        if error.code is Code.DEADLINE_EXCEEDED:
            raise DeadlineExceeded(TIMED_OUT) from error
        if error.fault is Fault.BUSY:
            raise error
        self._reason = error.message
        if error.fault is Fault.RUNNER or (error.fault is Fault.CONNECTION and error.sent):
            if destination.stateful or self._may_have_run:
                raise Unavailable(
                    f"{_title(destination)} lost its Triton copy; whether the request ran is unknown: {error.message}"
                ) from error
            self._may_have_run = True

    def give_up(self, destination: Destination) -> Unavailable:
        """What the client sees when no copy came back in time."""
        reason = f": {self._reason}" if self._reason else "."
        return Unavailable(f"{_title(destination)} has no ready copy on Triton now{reason}")

    def _check_load_time(self, need: NotLoaded) -> None:
        if self.load_remaining() <= 0:
            self.remaining()
            raise Unavailable(f"Model {need.model_id} was not loaded within {self._load_wait:g} seconds.")


def _title(destination: Destination) -> str:
    if isinstance(destination, ServableRoute):
        return f"Model {destination.model} version {destination.version}"
    return f"Model {destination.model}"
