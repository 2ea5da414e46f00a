# pyright: strict
"""A user's program: mypy and pyright, both strict, check it against the installed package (`make walk`)."""

from pathlib import Path

import numpy as np

from psimlearn import PSIM, DataError, Filter, Live, PsimlearnError, Ridge, Trajectories, __version__, load
from psimlearn.datasets import noisy_pendulum
from psimlearn.evaluate import errors_by_horizon

Rows = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def learnt(recordings: Trajectories) -> PSIM:
    return PSIM(window=3, learner=Ridge(1e-2), lags=1, n_rounds=2, random_state=0).fit(recordings)


def watched(live: Live, rows: Rows) -> list[float]:
    """The log-likelihood of every row."""
    found: list[float] = []
    for row in rows:
        live.update(row)
        found.append(float(live.log_likelihood))
    return found


def main(folder: Path) -> None:
    recordings = noisy_pendulum(20, 40, np.random.default_rng(0))
    model = learnt(recordings)
    summary: str = model.summary()
    assert summary
    ahead: Rows = model.forecast(recordings, steps=4)
    assert ahead.shape == (20, 4, recordings.n_channels)
    assert len(watched(model.start(), recordings[0].values)) == 40
    model.save(folder / "user.psim")
    filter: Filter = load(folder / "user.psim")
    errors: Rows = errors_by_horizon(filter, recordings)
    assert errors.shape == (1,)
    try:
        model.forecast(recordings, steps=0)
    except DataError as error:
        message = str(error)
    except PsimlearnError as error:
        message = f"{__version__}: {error}"
    else:
        message = ""
    assert message


if __name__ == "__main__":
    main(Path.cwd())
