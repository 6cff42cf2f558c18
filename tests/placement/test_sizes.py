from __future__ import annotations

from bridge.placement.model import Loadable
from bridge.placement.sizes import ENOUGH, Sizes


def model(id: str, predicted: int = 0, generation: int = 1) -> Loadable:
    return Loadable(id, generation, "tensorflow", predicted)


def test_what_is_expected() -> None:
    sizes = Sizes(100)
    assert sizes.expected(model("m")) == 100
    assert sizes.expected(model("m", 70)) == 70
    sizes.measured(model("m"), 60)
    assert sizes.expected(model("m", 70)) == 60
    assert sizes.expected(model("m", 70, generation=2)) == 70
    sizes.forget("m")
    assert sizes.expected(model("m", 70)) == 70


def test_many_measured_models_make_a_better_guess() -> None:
    sizes = Sizes(1000)
    for number in range(ENOUGH):
        assert sizes.expected(model("new")) == 1000
        sizes.measured(model(f"m{number}"), 50 + number)
    assert sizes.expected(model("new")) == 54
    assert sizes.expected(model("new", 7)) == 7
