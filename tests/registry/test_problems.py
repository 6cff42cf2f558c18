"""Problems of sources are told once per change."""

from __future__ import annotations

from bridge.registry import Actor, Registry


def test_a_problem_begins_changes_and_ends(registry: Registry, actor: Actor) -> None:
    path = "/models/" + "x" * 4000
    start = len(registry.events())
    assert registry.record_problem("model:m", path, "is missing", actor)
    assert not registry.record_problem("model:m", path, "is missing", actor)
    assert registry.record_problem("model:m", path, "is empty\0", actor)
    assert not registry.record_problem("model:m", path, "is empty\0", actor)
    assert [problem.sentence for problem in registry.problems("model:m")] == [r"is empty\x00"]
    assert registry.clear_problem("model:m", path, actor=actor)
    assert not registry.clear_problem("model:m", path, actor=actor)
    assert registry.problems() == ()
    told = registry.events(after=start)
    assert [event.action for event in told] == ["source problem", "source problem", "source cleared"]
    assert told[1].before["problem"] == "is missing"
    assert told[2].before["problem"] == r"is empty\x00"


def test_all_problems_of_a_subject_end(registry: Registry, actor: Actor) -> None:
    for subject, path in (("model:m", "/a"), ("model:m", "/b"), ("model:n", "/a")):
        registry.record_problem(subject, path, "is odd", actor)
    assert registry.clear_problem("model:m", actor=actor)
    assert [(problem.subject, problem.path) for problem in registry.problems()] == [("model:n", "/a")]
