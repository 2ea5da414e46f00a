"""One long recording is cut into blocks to learn from, and into nothing else."""

from typing import Any

import numpy as np
import pytest

from psimlearn.choose.splits import BLOCK, LONG, in_blocks, is_cut, splits_of
from psimlearn.estimator.parameters import interpreted
from psimlearn.estimator.psim import PSIM
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.train import Recipe
from small import ONE

ROWS = 2 * LONG + 77
COUNTING = Trajectories.of(np.arange(float(ROWS))[:, None])


def settings(**parameters: Any) -> Any:
    return interpreted(PSIM(3, **parameters).get_params(), COUNTING)


def wave(rows: int = LONG + 501) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = np.zeros((rows, 1))
    for t in range(1, rows):
        x[t] = 0.8 * x[t - 1] + rng.standard_normal(1)
    return x + 5.0


def test_blocks_follow_each_other_and_lose_no_row() -> None:
    blocks = in_blocks(COUNTING)
    assert blocks.values.tolist() == COUNTING.values.tolist()
    assert len(blocks) == ROWS // BLOCK
    assert np.ptp(blocks.lengths) <= 1
    assert in_blocks(Trajectories.of(np.zeros((BLOCK - 1, 1)))).lengths.tolist() == [BLOCK - 1]


def test_no_training_target_reaches_into_the_held_out_rows() -> None:
    tested: list[float] = []
    for train, held in splits_of(COUNTING, settings(validation=0.25), np.random.default_rng(0)):
        assert train.lengths.max() < 2 * BLOCK > held.lengths.max()
        times, away = train.values[:, 0], held.values[:, 0]
        assert np.abs(times[:, None] - away[None]).min() > 3
        assert all((np.diff(part.values[:, 0]) == 1).all() for part in (*train, *held))
        tested += away.tolist()
    assert len(tested) >= 2000


def test_settings_are_sought_in_blocks_spread_over_a_very_long_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter learns from all rows; without that last fit, all blocks are trained on.

    An opening is chosen on held-out blocks, and would decide the first belief.
    """
    monkeypatch.setattr("psimlearn.choose.splits.SOUGHT", 1000)
    for refit in (True, False):
        ((train, held),) = splits_of(COUNTING, settings(validation=0.5, refit=refit), np.random.default_rng(0))[:1]
        rows = len(train.values)
        assert rows <= 1000 if refit else rows > 1900
        assert np.ptp(train.values) > 1000 or np.ptp(held.values) > 1000
    model = PSIM(**ONE, opening=False).fit(wave())
    assert model.filter_.thresholds is not None
    monkeypatch.setattr("psimlearn.choose.splits.SOUGHT", 10**6)
    every = PSIM(**ONE, opening=False).fit(wave())
    np.testing.assert_allclose(model.filter_.initial, every.filter_.initial, rtol=1e-9)
    np.testing.assert_allclose(model.filter_.scaling.mean, every.filter_.scaling.mean, rtol=1e-12)


@pytest.mark.parametrize(
    ("parameters", "cut"),
    [({}, True), ({"trainer": "forward"}, False), ({"recipe": Recipe()}, False)],
    ids=["default", "forward", "recipe"],
)
def test_settings_taken_literally_leave_it_whole(parameters: dict[str, Any], cut: bool) -> None:
    assert is_cut(COUNTING, settings(**parameters)) == cut
    assert not is_cut(COUNTING[[0, 0]], settings(**parameters))  # several recordings have their beginnings
    assert not is_cut(COUNTING.blocks(LONG), settings(**parameters))


@pytest.mark.usefixtures("unchecked")
def test_a_long_recording_teaches_as_its_blocks_do() -> None:
    x, held = wave(), wave(300)
    whole = PSIM(**ONE | {"validation": [held]}).fit(x)
    blocks = PSIM(**ONE | {"validation": [held]}).fit(list(in_blocks(Trajectories.of(x))))
    # recordings are put in an order of their contents, blocks of one recording stay in time: sums differ by rounding
    np.testing.assert_allclose(whole.forecast(held, 3), blocks.forecast(held, 3), rtol=1e-9)
    assert whole.report_["data"]["recordings"] == 1
    assert whole.report_["splits"] == "1 split, 1 recordings held out"
    np.testing.assert_allclose(whole.predict(held)[0], 5.0, atol=1.5)  # before any row: a mean over beginnings


@pytest.mark.usefixtures("unchecked")
def test_blocks_are_told() -> None:
    fitted = PSIM(**ONE).fit(wave())
    assert fitted.report_["splits"] == "2 splits, 4 blocks held out"
    assert f"1 recording of {LONG + 501}" in fitted.summary()
