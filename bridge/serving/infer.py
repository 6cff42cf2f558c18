"""The request path: from a request to a Triton copy and back, over the faults of the platform.

A fault of the model is the answer. A fault of the platform is met with another copy or with the wait for one, up to
`recovery_wait`; the client then sees UNAVAILABLE, never NOT_FOUND and never another version than it asked for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar
from zlib import crc32

from bridge.codec.predict import ModelSpec
from bridge.codec.tensor import Tensor
from bridge.errors import Code, Unavailable
from bridge.serving.control import Control, RoutesView
from bridge.serving.copy_health import BACKOFF, LONGEST_BACKOFF, CopyHealth
from bridge.serving.destination import Found, NotLoaded, as_servable, find
from bridge.serving.flights import Copy, Flights
from bridge.serving.legs import LegPool
from bridge.serving.observer import Observer, Observers
from bridge.serving.patience import REPEAT_DEMAND, Patience
from bridge.serving.resolve import NotLoadedYet
from bridge.serving.routes import Destination, InstanceRoute, Routes, ServableRoute
from bridge.serving.session_run import SessionRun, ping
from bridge.triton.calls import CallError, Fault, InferenceLeg

logger = logging.getLogger(__name__)

P = TypeVar("P")
R = TypeVar("R")

Plan = Callable[[ServableRoute], Awaitable[tuple[P, SessionRun]]]
"""What a request means on a servable, and what the shell needs of that to convert the answer.

It is asked again when the request is resolved again.
"""

Send = Callable[[InferenceLeg, float], Awaitable[R]]
"""One try of a request on one instance, within so many seconds. Raises CallError."""

Attempt = Callable[[Destination], Awaitable[Send[R]]]
"""Makes a request ready for a destination. Raises BridgeError where that cannot answer it."""


@dataclass(frozen=True, slots=True)
class InferenceSettings:
    """Times in seconds. `request_timeout` is the deadline of requests whose client set none; copies with a call older
    than `ping_after` are asked whether they live. A copy takes `queue_size` calls at a time, waiting ones included. A
    request waits `load_wait` for the load of a registered model.
    `check_method_names` holds signatures to the method names that TF Serving knows.
    """

    recovery_wait: float = 5.0
    request_timeout: float = 3600.0
    ping_after: float = 1.0
    ping_timeout: float = 30.0
    queue_size: int = 1000
    check_method_names: bool = False
    load_wait: float = 600.0


class Answer(NamedTuple, Generic[P]):
    """An answered request: the servable that answered, what its plan was, and the outputs in the order of fetches."""

    servable: ServableRoute
    plan: P
    outputs: list[tuple[str, Tensor]]


class InferenceCore:
    """Runs requests on the copies that the routes snapshot names. Used on one event loop."""

    def __init__(
        self,
        view: RoutesView,
        legs: LegPool,
        control: Control,
        settings: InferenceSettings | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.view = view
        self.observer = observer or Observers()
        self._legs = legs
        self._control = control
        self._settings = settings or InferenceSettings()
        self._flights = Flights()
        self._health = CopyHealth()
        self._watcher: asyncio.Task[None] | None = None
        self._pings: dict[Copy, asyncio.Task[None]] = {}
        view.on_published(legs.observe)
        view.on_published(self._observe)
        view.on_lost(self._lost)

    def start(self) -> None:
        """Begin to look after calls that take long."""
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        """Stop looking after calls and close the legs."""
        tasks = [*self._pings.values(), *([self._watcher] if self._watcher else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._legs.close()

    @property
    def check_method_names(self) -> bool:
        """Whether signatures are held to the method names that TF Serving knows."""
        return self._settings.check_method_names

    async def infer(self, spec: ModelSpec | None, plan: Plan[P], timeout: float | None, api: str = "") -> Answer[P]:
        """Answer a request whose meaning on a servable `plan` tells, within `timeout` seconds; None means the cap.

        The observer is told of the run under the name `api`, unless that is empty. Raises BridgeError with TF Serving's
        code and sentence.
        """

        async def attempt(destination: Destination) -> Send[Answer[P]]:
            answering = as_servable(destination)
            planned, run = await plan(answering)

            async def send(leg: InferenceLeg, remaining: float) -> Answer[P]:
                started = time.perf_counter()
                answer = await leg.infer(run.call(answering.triton_name, repeatable=not answering.stateful), remaining)
                if api:
                    self.observer.ran(api, answering.model, time.perf_counter() - started)
                return Answer(answering, planned, run.outputs(answer))

            return send

        return await self.answer(spec, attempt, timeout)

    async def answer(self, spec: ModelSpec | None, attempt: Attempt[R], timeout: float | None, affinity: str = "") -> R:
        """Answer a request by `attempt`, on another copy where one fails, within `timeout` seconds; None means the cap.

        Requests of one `affinity` go to one copy as long as the copies stay the same. Raises BridgeError.
        """
        patience = self._patience(timeout)
        freshness = self.view.freshness
        while True:
            if freshness.over:
                await freshness.renewed(min(self._settings.recovery_wait, patience.remaining()))
            routes, late = self.view.enter(), None
            try:
                found = find(routes, spec)
                send = await attempt(found.destination)
                copy = self._choose(routes, found.destination, affinity)
                if copy is not None:
                    return await self._send(routes, copy, found, send, patience.remaining())
            except (NotLoadedYet, NotLoaded) as error:
                late = error
            except CallError as error:
                patience.refuse_or_retry(error, found.destination)
            finally:
                self.view.leave(routes)
            if late is not None:
                await self._wait_for_load(patience, routes, late)
            elif copy is None:
                await self._wait(patience, routes, found)

    async def destination(self, spec: ModelSpec | None, timeout: float | None) -> Destination:
        """What answers for `spec`; a registered model is loaded for that. Raises BridgeError."""
        patience = self._patience(timeout)
        while True:
            routes = self.view.routes
            try:
                return find(routes, spec).destination
            except NotLoaded as error:
                need = error
            await self._wait_for_load(patience, routes, need)

    async def ask_copies(self, destination: Destination, method: str, request: bytes, timeout: float) -> list[bytes]:
        """What every copy's Triton answers to a call of its own service. Raises BridgeError if one does not."""
        instances = [self.view.routes.instances.get(name) for name in destination.instances]
        asked = [self._ask(instance, method, request, timeout) for instance in instances if instance is not None]
        return await asyncio.gather(*asked)

    async def _ask(self, instance: InstanceRoute, method: str, request: bytes, timeout: float) -> bytes:
        with self._legs.use(instance) as leg:
            return await leg.forward(method, request, timeout)

    def _patience(self, timeout: float | None) -> Patience:
        settings = self._settings
        longest = settings.request_timeout if timeout is None else timeout
        return Patience(longest, settings.recovery_wait, settings.load_wait)

    def _choose(self, routes: Routes, destination: Destination, affinity: str) -> Copy | None:
        admitted = [
            name
            for name in destination.instances
            if name in routes.instances and self._health.admits(Copy(destination.triton_name, name))
        ]
        if not admitted:
            return None
        if affinity:
            return Copy(destination.triton_name, sorted(admitted)[crc32(affinity.encode()) % len(admitted)])
        return Copy(destination.triton_name, self._legs.least_busy(admitted))

    async def _send(self, routes: Routes, copy: Copy, found: Found, send: Send[R], timeout: float) -> R:
        if self._flights.count(copy) >= self._settings.queue_size:
            raise Unavailable(
                f"{self._settings.queue_size} requests wait for {copy.triton_name}; it takes no more now."
            )
        if found.registered:
            self._control.used(found.registered, 1)
        flight = self._flights.start(copy)
        try:
            with self._legs.use(routes.instances[copy.instance]) as leg, flight:
                answer = await send(leg, timeout)
        except CallError as error:
            self._learn(copy, error, flight.number)
            raise
        self._health.succeeded(copy)
        return answer

    def _learn(self, copy: Copy, error: CallError, number: int) -> None:
        """Draw the conclusions for other requests from a failed call."""
        if error.fault is Fault.MODEL:
            self._health.succeeded(copy)
        elif error.fault is not Fault.BUSY and error.code is not Code.DEADLINE_EXCEEDED:
            self._suspect(copy, error, number)

    def _suspect(self, copy: Copy, error: CallError, number: int) -> None:
        if self._health.is_stale(copy, number):
            return
        self._health.failed(copy, LONGEST_BACKOFF if error.fault is Fault.RUNNER else BACKOFF)
        self._control.report_failure(copy.triton_name, copy.instance, error.message)
        if error.fault is Fault.RUNNER:
            self._flights.fail(copy, error, before=number)

    async def _wait(self, patience: Patience, routes: Routes, found: Found) -> None:
        """Wait for news of a copy, unless there was some meanwhile. Raises Unavailable when the time is over."""
        destination = found.destination
        remaining = patience.load_remaining() if found.registered else patience.recovery_remaining()
        if remaining <= 0:
            raise patience.give_up(destination)
        if self.view.routes is routes:
            copies = [Copy(destination.triton_name, name) for name in destination.instances]
            await self._health.news(copies, remaining)

    async def _wait_for_load(self, patience: Patience, routes: Routes, error: NotLoadedYet | NotLoaded) -> None:
        """Wait for another snapshot than `routes`, for some time. Raises BridgeError when the time is over."""
        if isinstance(error, NotLoaded):
            if patience.demands(error):
                self._control.load_on_demand(error.model_id)
            remaining = min(patience.load_remaining(), REPEAT_DEMAND)
        else:
            remaining = patience.recovery_remaining()
            if remaining <= 0:
                raise error
        if self.view.routes is routes:
            await self._health.news((), remaining)

    def _observe(self, routes: Routes) -> None:
        self._health.observe(routes, self._flights.next_number())

    def _lost(self, triton_name: str, instance: str) -> None:
        copy = Copy(triton_name, instance)
        error = CallError(f"The runner of {triton_name} on {instance} died.", Code.UNAVAILABLE, Fault.RUNNER)
        self._flights.fail(copy, error, before=self._flights.next_number())

    async def _watch(self) -> None:
        """Ping the copies with calls that take long: a dead runner answers nothing by itself."""
        while True:
            await asyncio.sleep(self._settings.ping_after)
            ours = {route.triton_name for route in self.view.routes.servables()}
            for copy in self._flights.overdue(self._settings.ping_after):
                if copy.triton_name in ours and copy not in self._pings:
                    self._pings[copy] = asyncio.get_running_loop().create_task(self._ping(copy))

    async def _ping(self, copy: Copy) -> None:
        number = self._flights.next_number()
        try:
            instance = self.view.routes.instances.get(copy.instance)
            if instance is not None:
                with self._legs.use(instance) as leg:
                    await leg.infer(ping(copy.triton_name), self._settings.ping_timeout)
        except CallError as error:
            logger.debug("Ping of %s on %s: %s", copy.triton_name, copy.instance, error.message)
            if error.fault is Fault.RUNNER:
                self._suspect(copy, error, number)
        finally:
            del self._pings[copy]
