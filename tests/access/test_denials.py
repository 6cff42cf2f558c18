"""What of denied calls gets into the history, by a clock of the tests' own."""

from __future__ import annotations

from typing import Any

from bridge.access.denial import Denial
from bridge.access.denials import MOST_PEERS, MOST_SUMS, OTHERS, Denials, Pace
from bridge.access.identity import Identity, Kind, Scope
from bridge.errors import Code
from bridge.registry.access_events import CallDenied, CallsDenied
from bridge.registry.events import Event
from bridge.registry.records import Actor
from tests.access.callers import START, StandingClock

APP = Identity("app", Kind.TOKEN)
SECOND = 1_000_000


class History:
    """Denials, and the events that they wrote."""

    def __init__(self) -> None:
        self.clock = StandingClock()
        self.written: list[tuple[Event, Actor]] = []
        self.denials = Denials(lambda event, actor: self.written.append((event, actor)), self.clock)

    def deny(self, scope: Scope, times: int = 1, **changes: Any) -> None:
        values = {
            "port": "grpc",
            "source": "RPC",
            "method": "Service/Method",
            "scope": scope,
            "code": Code.PERMISSION_DENIED,
            "message": "No.",
            "identity": APP,
            "peer": "ipv4:10.0.0.1:4242",
            "metadata": {"x-audit-reason": "why", "x-request-id": "7", "authorization": "Bearer secret"},
        }
        for _ in range(times):
            self.denials.denied(Denial(**{**values, **changes}))

    def counted(self) -> float:
        return sum(
            sample.value
            for family in self.denials.metric.collect()
            for sample in family.samples
            if sample.name == "bridge_denied_requests_total"
        )

    def sums(self) -> list[CallsDenied]:
        return [event for event, _ in self.written if isinstance(event, CallsDenied)]


def test_a_management_call_is_an_event_with_reason_and_request_id() -> None:
    history = History()
    history.deny(Scope.MANAGE)
    [(event, actor)] = history.written
    assert event == CallDenied("grpc", "Service/Method", "manage", "PERMISSION_DENIED", "No.")
    assert actor == Actor("app", "RPC", "why", "7")


def test_ten_management_calls_of_a_peer_in_a_second_and_the_rest_are_counted() -> None:
    history = History()
    history.deny(Scope.MANAGE, 25)
    history.deny(Scope.MANAGE, peer="ipv4:10.0.0.2:1")
    assert len(history.written) == 11
    history.clock.tick(0.999999)
    history.deny(Scope.MANAGE)
    assert len(history.written) == 11
    history.clock.tick(0.000001)
    history.deny(Scope.MANAGE)
    assert len(history.written) == 12
    history.clock.tick(60)
    history.denials.flush()
    [rest] = history.sums()
    assert (rest.count, rest.first, rest.last) == (16, START, START + 999_999)
    assert history.counted() == 28


def test_a_peer_does_not_gain_by_new_connections() -> None:
    history = History()
    for port in range(30):
        history.deny(Scope.MANAGE, peer=f"ipv4:10.0.0.1:{port}", identity=Identity(f"ipv4:10.0.0.1:{port}", Kind.PEER))
    assert len(history.written) == 10
    assert {actor.name for _, actor in history.written} == {"10.0.0.1"}


def test_one_event_per_actor_method_and_minute() -> None:
    history = History()
    history.deny(Scope.INFERENCE, 3)
    history.deny(Scope.INFERENCE, 2, code=Code.UNAUTHENTICATED)
    history.deny(Scope.INFERENCE, method="Service/Other")
    history.deny(Scope.READ, identity=Identity("ops", Kind.TOKEN), method="Service/Read")
    assert not history.written
    history.clock.tick(59)
    history.deny(Scope.INFERENCE)
    history.denials.flush()
    assert not history.written
    history.clock.tick(1)
    history.deny(Scope.INFERENCE)
    history.denials.flush()
    assert [(actor.name, actor.reason, event.method, event.count) for event, actor in history.written] == [  # type: ignore[attr-defined]
        ("app", "", "Service/Method", 6),
        ("app", "", "Service/Other", 1),
        ("ops", "", "Service/Read", 1),
    ]
    [first, *_] = history.sums()
    assert first.codes == {"PERMISSION_DENIED": 4, "UNAUTHENTICATED": 2}
    assert (first.first, first.last) == (START, START + 59 * SECOND)
    history.denials.flush(everything=True)
    assert len(history.written) == 4
    history.denials.flush(everything=True)
    assert len(history.written) == 4


def test_actors_without_an_end_share_one_sum() -> None:
    history = History()
    for number in range(MOST_SUMS + 50):
        history.deny(
            Scope.INFERENCE, identity=Identity("", Kind.PEER), peer=f"ipv4:10.0.{number // 256}.{number % 256}:1"
        )
    history.denials.flush(everything=True)
    assert len(history.written) == MOST_SUMS + 1
    [(event, _)] = [(event, actor) for event, actor in history.written if actor.name == OTHERS]
    assert isinstance(event, CallsDenied)
    assert event.count == 50


def test_peers_without_an_end_share_one_pace() -> None:
    pace = Pace()
    passed = sum(pace.allows(f"peer {number}", START) for number in range(MOST_PEERS + 50))
    assert passed == MOST_PEERS + 10
    assert pace.allows("peer 1000", START + SECOND)


def test_no_token_gets_into_the_history() -> None:
    history = History()
    history.deny(Scope.MANAGE)
    history.deny(Scope.INFERENCE)
    history.denials.flush(everything=True)
    assert "secret" not in repr(history.written)
