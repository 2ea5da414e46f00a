"""Groups: recordings of one group stay on one side of every split."""

from typing import Any

import numpy as np
import pytest

from psimlearn.choose.splits import splits_of
from psimlearn.errors import DataError
from psimlearn.estimator.parameters import interpreted
from psimlearn.estimator.psim import PSIM
from psimlearn.recordings.trajectories import Trajectories
from small import ONE, several

RNG = np.random.default_rng
LABELS = ["b", "a", "c", "b", "a", "d", "c", "d"]


def counting(lengths: list[int]) -> Trajectories:
    """Recording i holds the number i only."""
    return Trajectories.of([np.full((length, 1), float(i)) for i, length in enumerate(lengths)])


@pytest.mark.parametrize("validation", [0.5, 0.25, 0.1])
def test_no_group_is_on_both_sides(validation: float) -> None:
    settings = interpreted(PSIM(2, validation=validation).get_params(), counting([40] * 8))
    groups = np.array([0, 1, 0, 2, 1, 2, 3, 3])
    tested: list[int] = []
    for train, held in splits_of(counting([40] * 8), settings, RNG(0), groups):
        sides = [set(groups[np.unique(part.values).astype(int)]) for part in (train, held)]
        assert sides[0].isdisjoint(sides[1])
        assert sides[0] | sides[1] == {0, 1, 2, 3}
        tested += np.unique(held.values).astype(int).tolist()
    assert sorted(tested) == list(range(8))  # every recording once


def test_groups_in_fit() -> None:
    fitted = PSIM(**ONE).fit(several(), groups=LABELS)
    assert fitted.report_["splits"] == "2 splits, 8 recordings held out"
    held = [{part.values.tobytes() for part in held} for _, held in fitted.held_out_]
    places = {label: [several()[i].tobytes() for i in range(8) if LABELS[i] == label] for label in "abcd"}
    for pair in places.values():
        assert [pair[0] in side for side in held] == [pair[1] in side for side in held]
    # without groups, the same seed separates at least one pair
    plain = PSIM(**ONE).fit(several())
    held = [{part.values.tobytes() for part in held} for _, held in plain.held_out_]
    assert any([a in side for side in held] != [b in side for side in held] for a, b in places.values())


def test_short_recordings_leave_with_their_labels() -> None:
    data = several()
    data[1] = data[1][:1]
    PSIM(**ONE).fit(data, groups=LABELS)
    with pytest.raises(DataError, match="groups: required at least 2 groups with recordings longer than the window"):
        PSIM(**ONE).fit([several()[0], several()[1], several()[2][:1]], groups=[0, 0, 1])


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([0, 1], "groups: required one label for each of the 8 recordings, received 2 labels"),
        (np.zeros((8, 1)), r"required one label for each of the 8 recordings, received shape \(8, 1\)"),
        ([[0], [1, 2]] * 4, "groups: required one label for each of the 8 recordings, received lists"),
        ([0] * 8, "required at least 2 groups"),
        ([None, 1, "a", 2, 3, 4, 5, 6], "groups: required labels of one type"),
    ],
)
def test_groups_refused(groups: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        PSIM(**ONE).fit(several(), groups=groups)


def test_groups_do_not_matter_where_recordings_are_held_out_by_the_caller() -> None:
    a = PSIM(**ONE | {"validation": several(1)}).fit(several(), groups=[0] * 8)
    b = PSIM(**ONE | {"validation": several(1)}).fit(several())
    np.testing.assert_array_equal(a.forecast(several(), 2), b.forecast(several(), 2))
