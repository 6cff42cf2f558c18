"""The tunables of placement. The defaults are ModelMesh's."""

from __future__ import annotations

from dataclasses import dataclass, field

from bridge.placement.constraints import TypeConstraints

MIB = 1 << 20
SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


@dataclass(frozen=True)
class PlacementSettings:
    """Durations are in milliseconds, sizes in bytes, rates in requests per minute."""

    default_size: int = MIB
    """What a model of unknown size is taken for."""
    load_concurrency: int = 2
    """Loads in flight on one instance."""
    room_wait_ms: int = 3 * MINUTE
    """How long a load waits for room, or for an instance, before it is given up without a failure record."""
    no_instance_wait_ms: int = 5 * SECOND
    """How long a load waits while no instance is up."""
    urgent_priority_ms: int = 2 * HOUR
    """How far a load that a request waits for is moved ahead in the queue."""
    settle_ms: int = SECOND
    """How long a copy that was loaded for a waiting request stays safe from eviction unless it is used before."""

    failure_expiry_ms: int = 15 * MINUTE
    """How long a failed load keeps an instance from being tried again; half of that while the model is requested."""
    requested_within_ms: int = 3 * MINUTE
    """A model counts as requested if its last use is not longer ago."""
    max_load_failures: int = 3
    """With so many failures younger than half their expiry no further load is tried."""

    drain_delay_ms: int = 0
    """Least time between the withdrawal of a copy and its unload."""
    drain_limit_ms: int = 127 * SECOND
    """Longest time that requests in flight can hold up an unload."""
    unload_retry_ms: int = 10 * SECOND
    """Pause between two tries of an unload that fails."""

    min_churn_age_ms: int = 0
    """A full instance whose least recently used model was used within this time takes no other; 0 is no such guard."""
    similar_age_ms: int = 45 * SECOND
    """Full instances whose least recently used models are as close as this are equally good."""

    second_copies: bool = True
    """Whether regularly used models get a second copy, and busy ones more."""
    second_copy_min_age_ms: int = 7 * MINUTE
    second_copy_max_age_ms: int = 40 * MINUTE
    """A model used now and also between these ages ago is used regularly."""
    rate_interval_ms: int = 10 * SECOND
    """How often `tick` is called."""
    scale_up_rpm: int = 2000
    """Rate per copy from which on a model gets more copies."""
    recent_copy_ms: int = 30 * MINUTE
    """No third or later copy is taken away while the model's newest copy is younger than this."""
    fill_free_space: bool = False
    """Whether models that nobody asked for are loaded while there is room."""

    refuse_pinned: bool = True
    """Whether a pinned servable that does not fit is refused; else it may take more than there is."""

    constraints: TypeConstraints = field(default_factory=TypeConstraints)
