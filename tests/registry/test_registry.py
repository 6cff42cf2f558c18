"""Opening, identity, restarts, and a database that is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from bridge.errors import FailedPrecondition, InvalidArgument, Unavailable
from bridge.registry import Actor, ModelSpec, Owner, Registry, RegistryThread, schema
from tests.registry.conftest import ManualClock
from tests.support.postgres import PostgresServer, postgres_server


def test_the_deployment_id_is_made_once(open_registry: Callable[..., Registry]) -> None:
    identity = open_registry().deployment_id
    assert len(identity) == 8
    assert int(identity, 16) >= 0
    assert open_registry().deployment_id == identity
    with pytest.raises(FailedPrecondition, match=f"belongs to deployment {identity}, not to 00000000"):
        open_registry(deployment_id="00000000")


def test_a_given_deployment_id(open_registry: Callable[..., Registry]) -> None:
    with pytest.raises(InvalidArgument, match="'XYZ' is not 8 lower-case hex digits"):
        open_registry(deployment_id="XYZ")
    assert open_registry(deployment_id="0123abcd").deployment_id == "0123abcd"
    assert open_registry().deployment_id == "0123abcd"


def test_a_restart_keeps_everything(open_registry: Callable[..., Registry], actor: Actor, clock: ManualClock) -> None:
    first = open_registry()
    first.apply_config("flags", "h", "text", [ModelSpec("m", "/m", labels={"stable": 1})], actor)
    first.record_version("m", 1, 30, actor=actor)
    first.upsert_instance("local", "a", "b", actor=actor)
    first.record_copy("tfs.0.m.1", "m", 1, "local", 30, actor=actor)
    first.record_problem("model:m", "/m/2", "is truncated", actor)
    kept = state(first)
    first.close()
    assert state(open_registry()) == kept


def state(registry: Registry) -> tuple[object, ...]:
    return (
        registry.models(),
        registry.versions(),
        registry.instances(),
        registry.copies(),
        registry.problems(),
        registry.config_revisions(),
        registry.current_config(),
        registry.events(),
        registry.verify_chain(),
    )


async def test_the_thread_keeps_order_and_raises(open_registry: Callable[..., Registry], actor: Actor) -> None:
    registry, thread = open_registry(), RegistryThread()
    await thread.call(registry.put_model, ModelSpec("m", "/m"), Owner.ADMIN, actor)
    for number in range(10):
        await thread.call(registry.set_label, "m", "stable", number, actor)
    with pytest.raises(InvalidArgument):
        await thread.call(registry.set_label, "m", "", 1, actor)
    thread.close()
    assert registry.labels("m") == {"stable": 9}


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_locked_sqlite_file_is_unavailable(
    open_registry: Callable[..., Registry], actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.registry.database.BUSY_TIMEOUT_MS", 50)
    holder, other = open_registry(), open_registry()
    with (
        holder._database._writer.begin(),
        pytest.raises(Unavailable, match=r"bridge\.db does not answer: database is locked\.$"),
    ):
        other.put_model(ModelSpec("m", "/m"), Owner.ADMIN, actor)
    assert other.put_model(ModelSpec("m", "/m"), Owner.ADMIN, actor)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    with postgres_server() as server:
        yield server


@pytest.mark.integration
def test_a_postgresql_that_goes_and_comes_back(own_server: PostgresServer, actor: Actor) -> None:
    url = own_server.create_database()
    schema.upgrade(url)
    registry = Registry.open(url)
    registry.put_model(ModelSpec("m", "/m"), Owner.ADMIN, actor)
    own_server.kill()
    for call in (lambda: registry.set_label("m", "l", 1, actor), registry.models, registry.verify_chain):
        with pytest.raises(Unavailable, match=r"does not answer"):
            call()
    own_server.start()
    assert registry.set_label("m", "l", 1, actor)
    assert registry.verify_chain() is None
    registry.close()


@pytest.mark.parametrize("dialect", [pytest.param("postgresql", marks=pytest.mark.integration)], indirect=True)
def test_a_role_that_may_only_add_to_the_history(url: str, postgres: PostgresServer, actor: Actor) -> None:
    """The bridge needs no more: then not even its own role can switch the triggers off."""
    name = url.rpartition("/")[2]
    for statement in (
        "drop role if exists restricted",
        "create role restricted login",
        "grant usage on schema public to restricted",
        "grant select, insert, update, delete on all tables in schema public to restricted",
        "revoke update, delete, truncate on events from restricted",
    ):
        postgres.execute(name, statement)
    registry = Registry.open(url.replace("postgres@", "restricted@"))
    registry.apply_config("flags", "h", "text", [ModelSpec("m", "/m", labels={"stable": 1})], actor)
    registry.set_label("m", "stable", 2, actor)
    registry.end_of_process(actor)
    assert registry.verify_chain() is None
    registry.close()
    postgres.execute(name, "drop owned by restricted; drop role restricted")
