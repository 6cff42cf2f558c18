"""The registry: what is wanted, what was observed, and the history of both.

Every call is one transaction. A call that changes nothing writes nothing; one that changes something writes its
events in the same transaction. Calls raise `bridge.errors.Unavailable` while the database does not answer.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bridge.clock import Clock, SystemClock
from bridge.errors import FailedPrecondition, InvalidArgument
from bridge.registry import (
    configs,
    fleet,
    imports,
    leases,
    load_failures,
    models,
    notices,
    problems,
    provenance,
    registered_models,
    replicas,
    rollback,
    schema,
    verification,
    versions,
    vmodels,
)
from bridge.registry.database import Database
from bridge.registry.events import Event, VersionObserved
from bridge.registry.imports import ImportedModel, ImportedVModel, ImportOutcome
from bridge.registry.journal import Journal
from bridge.registry.recorded_history import RecordedHistory
from bridge.registry.records import (
    Actor,
    AppliedConfig,
    ConfigRevision,
    Copy,
    DeleteOutcome,
    EventRecord,
    Instance,
    InstanceState,
    JsonObject,
    Lease,
    Model,
    ModelInfo,
    ModelSpec,
    Owner,
    Problem,
    PromoteOutcome,
    Pulse,
    RegisteredModel,
    Replica,
    RouterProgress,
    SetVModel,
    SetVModelOutcome,
    Version,
    VModel,
)
from bridge.registry.rollback_records import LabelRollback, ModelRollback, Provenance
from bridge.registry.tables import meta
from bridge.registry.transaction import Transaction, Transactions
from bridge.registry.vmodel_rules import CopiesView

UNRECORDED = Actor("bridge", "placement")
"""For calls that never write an event."""


class Registry(RecordedHistory):
    """Synchronous; safe for several threads. `deployment_id` is part of every Triton model name of ours."""

    def __init__(self, database: Database, transactions: Transactions, journal: Journal, deployment_id: str) -> None:
        super().__init__(database, transactions)
        self.deployment_id = deployment_id
        self._journal = journal

    @classmethod
    def open(
        cls,
        url: str,
        clock: Clock | None = None,
        deployment_id: str | None = None,
        audit_key: bytes | None = None,
        origin: str = "",
    ) -> Registry:
        """Open the database at `url`, whose schema must be current (`bridge.registry.schema.upgrade`).

        Other bridges on the database are told of what this one changes as `origin`.
        A new database gets `deployment_id`, 8 hex digits, or makes one. Raises FailedPrecondition for another schema,
        or if the database belongs to another deployment.
        """
        clock = clock or SystemClock()
        journal = Journal(clock, audit_key)
        database = Database.connect(url)
        try:
            schema.require_current(database)
            identity = database.write(lambda connection: _identify(connection, clock, deployment_id))
        except BaseException:
            database.close()
            raise
        return cls(database, Transactions(database, clock, journal, origin=origin), journal, identity)

    def close(self) -> None:
        self._database.close()

    @property
    def shared(self) -> bool:
        """Whether other bridges may use the same database."""
        return self._database.shared

    @property
    def events_written(self) -> int:
        """How many events this process has committed; does not ask the database."""
        return self._journal.written

    def fenced(self, lease: Lease) -> Registry:
        """This registry for the holder of `lease`: every write is refused once the lease is over."""
        return Registry(
            self._database, self._transactions.guarded(leases.fence(lease)), self._journal, self.deployment_id
        )

    def models(self, removed: bool = False) -> tuple[Model, ...]:
        """Models by name; with `removed` also those that left."""
        return self._database.read(lambda connection: models.read_models(connection, removed=removed))

    def model(self, name: str) -> Model:
        """Raises NotFound."""
        return self._database.read(lambda connection: models.read_model(connection, name))

    def put_model(self, spec: ModelSpec, owner: Owner, actor: Actor) -> bool:
        """Add or change a model outside the configuration. Raises AlreadyExists if another owner has that name."""
        return self._transactions.run(lambda tx: models.put_model(tx, spec, owner), actor)

    def introduce_models(self, specs: Sequence[ModelSpec], owner: Owner, actor: Actor) -> None:
        """Let the history speak of models that are tried out before they are wanted."""

        def introduce(tx: Transaction) -> None:
            for spec in specs:
                models.introduce_model(tx, spec, owner)

        self._transactions.run(introduce, actor)

    def remove_model(self, name: str, owner: Owner, actor: Actor) -> None:
        """Raises NotFound, or AlreadyExists if another owner has that name."""
        self._transactions.run(lambda tx: models.remove_model(tx, name, owner), actor)

    def set_policy(self, model: str, policy: JsonObject, actor: Actor) -> bool:
        """Returns whether that changed anything. Raises NotFound."""
        return self._transactions.run(lambda tx: models.set_policy(tx, model, policy), actor)

    def unpin(self, model: str, actor: Actor) -> bool:
        """Lift the model's rollback pin; returns whether it had one. Raises NotFound."""
        return self._transactions.run(lambda tx: rollback.unpin(tx, model), actor)

    def roll_back_model(self, wanted: ModelRollback, actor: Actor) -> None:
        """Hold a model at what it served once. Raises FailedPrecondition if it was changed since that was planned."""
        self._transactions.run(lambda tx: rollback.roll_back_model(tx, wanted), actor)

    def roll_back_label(self, wanted: LabelRollback, actor: Actor) -> None:
        """Let a label mean what it meant once. Raises NotFound, FailedPrecondition if it was changed meanwhile."""
        self._transactions.run(lambda tx: rollback.roll_back_label(tx, wanted), actor)

    def provenance(self, model: str, version: int | None = None) -> tuple[Provenance, ...]:
        """The contents that a model's versions had, by version, the one seen last first."""
        return self._database.read(lambda connection: provenance.read_provenance(connection, model, version))

    def record_provenance(self, seen: Provenance, actor: Actor) -> bool:
        """Keep what a version was loaded from; returns whether that is news."""

        def record(tx: Transaction) -> bool:
            news = provenance.record_provenance(tx, seen)
            versions.tell_content(tx, seen)
            return news

        return self._transactions.run(record, actor)

    def record_found(self, model: str, version: int, fingerprint: str, size: int, actor: Actor) -> bool:
        """Keep what lies now where a version was loaded from; returns whether that is news."""
        return self._transactions.run(lambda tx: provenance.record_found(tx, model, version, fingerprint, size), actor)

    def labels(self, model: str) -> dict[str, int]:
        """Versions by label. Raises NotFound."""
        return dict(self.model(model).labels)

    def set_label(self, model: str, label: str, version: int, actor: Actor) -> bool:
        """Returns whether that changed anything. Raises NotFound for the model, InvalidArgument for the label."""
        return self._transactions.run(lambda tx: models.set_label(tx, model, label, version), actor)

    def remove_label(self, model: str, label: str, actor: Actor) -> bool:
        """Raises NotFound for the model or the label."""
        return self._transactions.run(lambda tx: models.remove_label(tx, model, label), actor)

    def apply_config(
        self,
        origin: str,
        content_hash: str,
        text: str,
        models: Sequence[ModelSpec],
        actor: Actor,
        takeover: bool = False,
        polled: bool = True,
    ) -> AppliedConfig:
        """Replace the models and labels that the configuration owns, as one event.

        Nothing happens if `content_hash` is that of the last applied revision of `origin`, so what was changed since
        stays. On a shared database an older revision's hash does not come back without `takeover`: another bridge has
        gone on. With `polled` false (a command) only the content is compared.
        Raises InvalidArgument, or AlreadyExists if a model of that name has another owner; nothing is written then.
        """
        once = self.shared and not takeover
        offer = configs.Offer(origin, content_hash, text, models, polled, once)
        return self._transactions.run(lambda tx: configs.apply_config(tx, offer), actor)

    def reject_config(self, origin: str, content_hash: str, text: str, error: str, actor: Actor) -> bool:
        """Record a configuration that cannot be applied; False if it was the last one heard of `origin`."""
        return self._transactions.run(lambda tx: configs.reject_config(tx, origin, content_hash, text, error), actor)

    def current_config(self) -> ConfigRevision | None:
        return self._database.read(configs.read_current)

    def config_revisions(self) -> tuple[ConfigRevision, ...]:
        """All revisions, oldest first."""
        return self._database.read(configs.read_revisions)

    def versions(self, model: str | None = None) -> tuple[Version, ...]:
        """Observed versions, by model, highest first."""
        return self._database.read(lambda connection: versions.read_versions(connection, model))

    def record_version(
        self,
        model: str,
        version: int,
        state: int,
        code: int = 0,
        message: str = "",
        path: str = "",
        fingerprint: str = "",
        size: int = 0,
        *,
        identity: str = "",
        actor: Actor,
    ) -> bool:
        """Keep an observed state; an empty path or fingerprint and a size of 0 mean: as known before.

        With the `identity` of a content fingerprint and size are those that `record_provenance` told of it.
        Returns whether anything changed. Raises NotFound for a model that never was in the registry.
        """
        observed = VersionObserved(model, version, state, code, message, path, fingerprint, size)
        return self._transactions.run(lambda tx: versions.record_version(tx, observed, identity), actor)

    def end_of_process(self, actor: Actor) -> None:
        """A process that observed this registry's fleet ended: forget what only it could know.

        Versions that were not at END become UNKNOWN, copies go, instances are unwatched, each with its event. Call it
        before the first observation of a new process, and as the last act of one that stops.
        """

        def forget(tx: Transaction) -> None:
            versions.forget_states(tx)
            fleet.forget_fleet(tx)

        self._transactions.run(forget, actor)

    def end_of_leader(self, living: Collection[str], actor: Actor) -> None:
        """Whoever observed versions ended: as `end_of_process`, but the instances of `living` owners stay known."""

        def forget(tx: Transaction) -> None:
            versions.forget_states(tx)
            fleet.forget_fleet(tx, lambda owner: owner not in living)

        self._transactions.run(forget, actor)

    def end_of_owner(self, owner: str, actor: Actor) -> None:
        """The process with the instances of this owner ended: their copies go, they are unwatched."""
        self._transactions.run(lambda tx: fleet.forget_fleet(tx, lambda known: known == owner), actor)

    def instances(self) -> tuple[Instance, ...]:
        return self._database.read(fleet.read_instances)

    def upsert_instance(self, name: str, grpc: str, http: str, owner: str = "", *, actor: Actor) -> bool:
        """Register a Triton instance or change its addresses or owner; its state stays."""
        return self._transactions.run(lambda tx: fleet.upsert_instance(tx, name, grpc, http, owner), actor)

    def record_instance_state(self, name: str, state: str, reason: str = "", *, actor: Actor) -> bool:
        """Keep an `InstanceState`; another reason for the same state is no change. Raises NotFound."""
        return self._transactions.run(
            lambda tx: fleet.record_instance_state(tx, name, InstanceState(state), reason), actor
        )

    def copies(self) -> tuple[Copy, ...]:
        return self._database.read(fleet.read_copies)

    def record_copy(
        self, triton_name: str, model: str, version: int, instance: str, state: int, size: int = 0, *, actor: Actor
    ) -> bool:
        """Keep the state of a servable on an instance. Raises NotFound for an unknown instance."""
        return self._transactions.run(
            lambda tx: fleet.record_copy(tx, triton_name, model, version, instance, state, size), actor
        )

    def remove_copy(self, triton_name: str, instance: str, cause: str = "", *, actor: Actor) -> bool:
        """The instance does not hold the servable any more, for that cause; False if the registry knew of no copy."""
        return self._transactions.run(lambda tx: fleet.remove_copy(tx, triton_name, instance, cause), actor)

    def problems(self, subject: str | None = None) -> tuple[Problem, ...]:
        """What is wrong with sources now."""
        return self._database.read(lambda connection: problems.read_problems(connection, subject))

    def record_problem(self, subject: str, path: str, sentence: str, actor: Actor) -> bool:
        """Returns whether that is news."""
        return self._transactions.run(lambda tx: problems.record_problem(tx, subject, path, sentence), actor)

    def clear_problem(self, subject: str, path: str | None = None, *, actor: Actor) -> bool:
        """The problem at `path` is over, without `path` every one of `subject`. Returns whether that is news."""
        return self._transactions.run(lambda tx: problems.clear_problem(tx, subject, path), actor)

    def registered_models(self) -> tuple[RegisteredModel, ...]:
        """Models that ModelMesh clients registered, by id."""
        return self._database.read(registered_models.read_registered_models)

    def registered_model(self, id: str) -> RegisteredModel | None:
        return self._database.read(lambda connection: registered_models.find_registered_model(connection, id))

    def register_model(
        self, id: str, info: ModelInfo, auto_delete: bool, last_used_at: int, actor: Actor
    ) -> tuple[RegisteredModel, bool]:
        """The model, and whether this call created it; `last_used_at` is in microseconds UTC.

        Raises InvalidArgument for an empty id or type, AlreadyExists if the id has other content.
        """
        return self._transactions.run(
            lambda tx: registered_models.register_model(tx, id, info, auto_delete, last_used_at), actor
        )

    def unregister_model(self, id: str, actor: Actor) -> RegisteredModel | None:
        """The model that left, None if there was none. Raises FailedPrecondition while a vmodel refers to it."""
        return self._transactions.run(lambda tx: registered_models.unregister_model(tx, id), actor)

    def touch_registered(self, last_used: Mapping[str, int]) -> None:
        """Move times of last use forward, microseconds UTC by id, without an event."""
        self._transactions.run(lambda tx: registered_models.touch_registered(tx, last_used), UNRECORDED)

    def record_load_failure(
        self, id: str, instance: str, code: int, message: str, actor: Actor, generation: int | None = None
    ) -> bool:
        """Keep why the instance could not load the model; False if that model, or that `generation` of it, is gone."""
        return self._transactions.run(
            lambda tx: load_failures.record_load_failure(tx, id, instance, code, message, generation), actor
        )

    def forget_load_failures(self, id: str, instances: Collection[str], actor: Actor) -> bool:
        """Failures of the model on these instances count no more; False if there were none."""
        return self._transactions.run(lambda tx: load_failures.forget_load_failures(tx, id, instances), actor)

    def vmodels(self) -> tuple[VModel, ...]:
        """By id."""
        return self._database.read(vmodels.read_vmodels)

    def vmodel(self, id: str) -> VModel | None:
        return self._database.read(lambda connection: vmodels.find_vmodel(connection, id))

    def set_vmodel(self, request: SetVModel, view: CopiesView, actor: Actor) -> SetVModelOutcome:
        """Create or move a vmodel, with its target and what its old models leave behind, in one transaction.

        `view` is asked on this thread, again if the transaction is tried again. Raises InvalidArgument, NotFound,
        AlreadyExists or FailedPrecondition with ModelMesh's sentences, and then nothing is changed.
        """
        wanted = vmodels.read_request(request)
        settled = self._database.look(lambda connection: vmodels.find_settled(connection, wanted, view))
        return settled or self._transactions.run(lambda tx: vmodels.set_vmodel(tx, wanted, view), actor)

    def import_all(
        self, models: Iterable[ImportedModel], vmodels: Iterable[ImportedVModel], actor: Actor
    ) -> ImportOutcome:
        """Register models and vmodels of another ModelMesh, all or none; as they are there already, nothing is written.

        Raises InvalidArgument, AlreadyExists.
        """
        return self._transactions.run(lambda tx: imports.import_all(tx, models, vmodels), actor)

    def promote_vmodel(self, id: str, active: str, target: str, actor: Actor) -> PromoteOutcome:
        """End the transition from `active` to `target`, if the vmodel still is in that one."""
        return self._transactions.run(lambda tx: vmodels.promote_vmodel(tx, id, active, target), actor)

    def fail_vmodel(self, id: str, target: str, failed: bool, actor: Actor, cause: str = "") -> bool:
        """Keep whether the target of a transition is known to fail, and why; False if that is no news."""
        return self._transactions.run(lambda tx: vmodels.fail_vmodel(tx, id, target, failed, cause), actor)

    def delete_vmodel(self, id: str, owner: str, actor: Actor) -> DeleteOutcome:
        """Delete a vmodel, if it is there and, where `owner` is not empty, has that owner."""
        return self._transactions.run(lambda tx: vmodels.delete_vmodel(tx, id, owner), actor)

    def append(self, event: Event, actor: Actor) -> None:
        """Write an event that no other call writes."""
        self._transactions.run(lambda tx: tx.emit(event), actor)

    def events(
        self,
        subject: str | None = None,
        action: str | None = None,
        after: int = 0,
        limit: int = 100,
        newest_first: bool = False,
    ) -> tuple[EventRecord, ...]:
        """Events past sequence number `after`, oldest first unless told otherwise."""
        return self._database.read(
            lambda connection: self._journal.events(connection, subject, action, after, limit, newest_first)
        )

    def verify_chain(self) -> int | None:
        """The first sequence number that is missing, altered or out of order; None for a sound history.

        Without the audit key a history that was rewritten and re-hashed passes.
        """
        broken = self._database.read(lambda connection: verification.verify(connection, self._journal.key)).broken
        return broken.seq if broken is not None else None

    def acquire_lease(self, holder: str, ttl: float, actor: Actor) -> Lease | None:
        """Become the leader for `ttl` seconds of the database's clock; None while another one is."""
        return self._transactions.run(lambda tx: leases.acquire_lease(tx, holder, ttl), actor)

    def renew_lease(self, lease: Lease, ttl: float, actor: Actor) -> Lease:
        """Raises FailedPrecondition if the lease is over."""
        return self._transactions.run(lambda tx: leases.renew_lease(tx, lease, ttl), actor)

    def release_lease(self, lease: Lease, actor: Actor) -> bool:
        return self._transactions.run(lambda tx: leases.release_lease(tx, lease), actor)

    def lease(self) -> Lease | None:
        """The last lease, held or over."""
        return self._database.read(leases.read_lease)

    def beat(self, replica: Replica, progress: Sequence[tuple[str, int]], ttl: float) -> Pulse:
        """Say that a replica and its routers, given with their drained epochs, live for `ttl` more seconds."""
        return self._transactions.run(lambda tx: replicas.beat(tx, replica, progress, ttl), UNRECORDED)

    def drain(self, router: str, replica: str, epoch: int, ttl: float) -> None:
        """A router holds no request older than `epoch`; this renews its lease and tells the leader."""
        self._transactions.run(lambda tx: replicas.drain(tx, router, replica, epoch, ttl), UNRECORDED)

    def leave(self, replica: str) -> None:
        """A replica ends; nobody has to wait for its routers."""
        self._transactions.run(lambda tx: replicas.leave(tx, replica), UNRECORDED)

    def replicas(self) -> tuple[Replica, ...]:
        """Bridges that live on this database."""
        return self._database.read(replicas.read_replicas)

    def routers(self) -> tuple[RouterProgress, ...]:
        """Request paths that live, with what they drained."""
        return self._database.read(replicas.read_routers)

    def write_routes(self, epoch: int, document: str) -> None:
        """Publish a snapshot to all replicas."""
        self._transactions.run(lambda tx: replicas.write_routes(tx, epoch, document), UNRECORDED)

    def read_routes(self, after: int) -> str | None:
        """The published snapshot, None if it is not newer than epoch `after`."""
        return self._database.look(lambda connection: replicas.read_routes(connection, after))

    def notify(self, word: str, content: Any) -> None:
        """Tell every replica on the same PostgreSQL; whoever does not listen now never hears of it."""
        self._transactions.run(lambda tx: notices.notify(tx.connection, word, content), UNRECORDED)

    def replica_secret(self) -> str:
        """What replicas prove to each other that they belong to this database."""
        return self._transactions.run(replicas.shared_secret, UNRECORDED)


def _identify(connection: Connection, clock: Clock, wanted: str | None) -> str:
    if wanted is not None and not re.fullmatch(r"[0-9a-f]{8}", wanted):
        raise InvalidArgument(f"The deployment id '{wanted}' is not 8 lower-case hex digits.")
    stored = connection.execute(sa.select(meta.c.deployment_id)).scalar_one_or_none()
    if stored is None:
        stored = wanted or secrets.token_hex(4)
        connection.execute(meta.insert().values(id=1, deployment_id=stored, created_at=clock.now()))
    elif wanted is not None and wanted != stored:
        raise FailedPrecondition(f"The database belongs to deployment {stored}, not to {wanted}.")
    return str(stored)
