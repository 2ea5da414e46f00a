"""scikit-learn's checks, and any finite recordings, in a process without shape checks."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from psimlearn.errors import PsimlearnError, PsimlearnWarning
from psimlearn.estimator.psim import PSIM
from psimlearn.estimator.scaler import TrajectoryScaler
from psimlearn.learners import RandomFourierRidge, Ridge
from small import ONE
from strategies import wild_recordings


def apart(code: str) -> None:
    """Run code in a process of its own, where shapes are not checked and everything is several times faster."""
    here = Path(__file__).parent
    path = [str(here), str(here.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path), "SCIPY_ARRAY_API": "1"}
    command = [
        sys.executable,
        "-W",
        "error",
        "-W",
        "ignore:fit",
        "-c",
        f"import {Path(__file__).stem} as here; here.{code}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


MEMORY = dict.fromkeys(
    ["check_methods_sample_order_invariance", "check_methods_subset_invariance"], "a filter has memory"
)


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [PSIM(**ONE), TrajectoryScaler()],
    expected_failed_checks=lambda estimator: MEMORY if isinstance(estimator, PSIM) else {},
)
def test_scikit_learns_own_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


LITTLE: dict[str, Any] = {"window": 1, "lags": 1, "prior": "mean", "belief_weight": 1.0, "validation": 0.5}
"""Nothing is left to choose but the round: these checks fit seventy times, and the first case chooses everything."""

ALL = "PSIMLEARN_CAMPAIGN" in os.environ
LONG = {
    "check_array_api_input",
    "check_dtype_object",
    "check_fit_check_is_fitted",
    "check_n_features_in",
    "check_positive_only_tag_during_fit",
    "check_transformer_data_not_an_array",
}
"""What these ask is settled before or after anything is chosen, so the cases that choose little make them; recordings
of ten channels or of a hundred rows take the one that chooses everything two minutes."""


OWN: dict[str, dict[str, Any]] = {
    "defaults": {"n_rounds": 1},
    "fourier": {"learner": RandomFourierRidge(20), "n_rounds": 1, **LITTLE},
    "forward": {"learner": Ridge(1e-2), "trainer": "forward", **LITTLE},
}


@pytest.mark.parametrize("case", OWN)
def test_scikit_learns_own_checks_with_the_defaults(case: str) -> None:
    apart(f"check_defaults({case!r})")


def check_defaults(case: str) -> None:
    """All checks, that of the array API included, which needs an environment of its own."""
    left = LONG if case == "defaults" and not ALL else set()
    names = []
    for estimator, check in estimator_checks_generator(PSIM(**OWN[case])):
        names.append(check.func.__name__)
        if names[-1] in MEMORY:
            with pytest.raises(AssertionError):
                check(estimator)
        elif names[-1] not in left:
            check(estimator)  # a check that scikit-learn leaves out raises SkipTest
    assert len(names) > 40
    assert set(names) > (left | set(MEMORY)) - {"check_array_api_input"}  # scikit-learn 1.6 does not have this one


MANY = int(os.environ.get("PSIMLEARN_EXAMPLES", "20"))


def survives(data: list[np.ndarray]) -> bool:
    """Finite predictions, or an error of ours; never another warning or exception. Whether it was learnt from."""
    warnings.simplefilter("ignore", PsimlearnWarning)  # a filter of a part may find the other part far outside
    everything = "PSIMLEARN_EXAMPLES" in os.environ or len(data) % 3 == 0  # is chosen; else the penalty alone
    own: dict[str, Any] = {} if everything else {"lags": 1, "prior": "mean", "belief_weight": 1.0}
    try:
        fitted = PSIM(window=2 if len(data) % 2 else 5, n_rounds=1, random_state=0, **own).fit(data)
    except PsimlearnError:
        return False
    for horizon in (1, 3):
        assert all(np.isfinite(part).all() for part in fitted.predict(data, horizon))
    assert np.isfinite(fitted.forecast(data, 4)).all()
    assert all((part < np.inf).all() for part in fitted.score_samples(data))  # -inf is fair, NaN is not
    assert all(np.isfinite(part).all() for part in fitted.transform(data))
    assert not fitted.score(data) > 1
    assert fitted.summary()
    return True


def survives_anything() -> None:
    learnt: list[bool] = []

    @settings(max_examples=MANY, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(wild_recordings())
    def survived(data: list[np.ndarray]) -> None:
        learnt.append(survives(data))

    survived()
    assert np.mean(learnt) >= 0.7  # so that refusing everything fails; 0.85 of the first forty


def test_any_finite_recordings_are_survived() -> None:
    apart("survives_anything()")
