"""Models survive pickle and joblib, for caches and workers. Files are better for keeping them (docs/export.md)."""

import pickle
from pathlib import Path

import joblib
import numpy as np

from small import driven, model, several


def test_a_model_survives_pickle_and_joblib_without_its_recordings(tmp_path: Path) -> None:
    for fitted in (model(), driven()):
        joblib.dump(fitted, tmp_path / "model.joblib")
        for twin in (pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "model.joblib")):
            assert twin.held_out_ == []
            assert twin.summary() == fitted.summary()
    data = several(1)
    twin = pickle.loads(pickle.dumps(model()))
    for a, b in zip(twin.predict(data), model().predict(data), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(twin.forecast(data, 3), model().forecast(data, 3))
