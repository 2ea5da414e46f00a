"""Ctrl-C in `PSIM.fit`: the first keeps the best so far, the second stops; other handlers and threads stay alone."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oracles import ragged
from psimlearn import PSIM
from psimlearn.choose.watch import Stage, Watch
from psimlearn.errors import PsimlearnWarning

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    """Whatever a fit does, Ctrl-C works as before afterwards."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


class Pressed(Watch):
    """Presses Ctrl-C at the given calls of one stage."""

    def __init__(self, stage: Stage, at: tuple[int, ...] = (1,)) -> None:
        self.stage, self.at, self.calls = stage, at, 0
        self.heard: list[str] = []

    def __call__(self, message: str) -> None:
        self.heard.append(message)

    def goes_on(self, stage: Stage, done: int, total: int) -> bool:
        self.calls += stage == self.stage
        if stage == self.stage and self.calls in self.at:
            signal.raise_signal(signal.SIGINT)
        return True


def model(watch: Any = False) -> PSIM:
    return PSIM(2, n_rounds=4, random_state=0, verbose=watch)


DATA = ragged([30, 25, 40, 18], 2, np.random.default_rng(0))


def test_the_first_ends_the_search_and_keeps_the_best_so_far() -> None:
    watch, whole = Pressed("trying settings", (3,)), model().fit(DATA)
    with pytest.warns(
        PsimlearnWarning, match=r"fit: Ctrl-C ended the choice of settings early \(trying settings: 3 of"
    ):
        fitted = model(watch).fit(DATA)
    assert fitted.report_["tried"] < whole.report_["tried"]
    assert "note: Ctrl-C ended the choice of settings early" in fitted.summary()
    assert any("Press it again to stop without a model" in said for said in watch.heard)
    assert np.isfinite(np.concatenate(fitted.predict(DATA))).all()
    assert fitted.sums_ is not None  # training on all recordings is made whole


def test_in_training_the_last_round_is_kept() -> None:
    given: dict[str, Any] = {"lags": 1, "prior": "mean", "belief_weight": 1.0, "init": "history"}
    whole = PSIM(2, n_rounds=4, random_state=1, **given).fit(DATA)
    assert whole.n_rounds_ > 0
    watch = Pressed("training")
    with pytest.warns(PsimlearnWarning, match=r"training on all recordings early \(training: 0 of .*partial_fit"):
        fitted = PSIM(2, n_rounds=4, random_state=1, verbose=watch, **given).fit(DATA)
    assert fitted.n_rounds_ < whole.n_rounds_
    assert fitted.report_["tried"] == whole.report_["tried"]


def test_the_second_stops_without_a_model() -> None:
    stopped = model(Pressed("trying settings", (2, 3)))
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(DATA)
    assert not hasattr(stopped, "filter_")


def test_before_anything_was_tried_there_is_nothing_to_keep() -> None:
    class AtOnce(Watch):
        def __call__(self, message: str) -> None:
            signal.raise_signal(signal.SIGINT)

    short = ragged([30, 25, 40, 18, 2], 2, np.random.default_rng(0))  # a note on the short one is told first
    with pytest.raises(KeyboardInterrupt):
        model(AtOnce()).fit(short)


def test_with_a_checkpoint_it_stops_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        model(Pressed("racing")).fit(DATA, checkpoint=tmp_path / "work")
    resumed, whole = model().fit(DATA, checkpoint=tmp_path / "work"), model().fit(DATA)
    np.testing.assert_array_equal(resumed.predict(DATA[:1]), whole.predict(DATA[:1]))


def test_handlers_of_other_programs_are_respected() -> None:
    received: list[int] = []

    def theirs(number: int, _: object) -> None:
        received.append(number)

    signal.signal(signal.SIGINT, theirs)
    fitted = model(Pressed("trying settings")).fit(DATA)
    assert received == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is theirs
    signal.signal(signal.SIGINT, signal.default_int_handler)
    np.testing.assert_array_equal(fitted.predict(DATA[:1]), model().fit(DATA).predict(DATA[:1]))


def test_a_handler_that_is_set_during_a_fit_stays() -> None:
    class Sets(Watch):
        def goes_on(self, stage: Stage, done: int, total: int) -> bool:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            return True

    model(Sets()).fit(DATA)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_other_threads_are_left_alone() -> None:
    seen: list[Any] = []

    class Looks(Watch):
        def goes_on(self, stage: Stage, done: int, total: int) -> bool:
            seen.append(signal.getsignal(signal.SIGINT))
            return True

    thread = threading.Thread(target=lambda: seen.append(model(Looks()).fit(DATA)))
    thread.start()
    thread.join()
    *handlers, fitted = seen
    assert set(handlers) == {signal.default_int_handler}
    assert hasattr(fitted, "filter_")


PROGRAM = """
import numpy as np, time
from psimlearn import PSIM
from psimlearn.choose.watch import Watch

class Told(Watch):
    def goes_on(self, stage, done, total):
        print(stage, done, flush=True)
        time.sleep(0.05)
        return True

x = [np.random.default_rng(i).standard_normal((30, 2)) for i in range(5)]
model = PSIM(2, random_state=0, verbose=Told()).fit(x)
print("kept", np.isfinite(model.predict(x)[0]).all(), len(model.trials_), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("presses", [1, 2])
def test_a_real_signal_to_a_program(presses: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "trying settings 1\n"
    process.send_signal(signal.SIGINT)
    for line in process.stdout:
        if presses == 2 and line.startswith("racing"):
            process.send_signal(signal.SIGINT)
            break
        if line.startswith("kept"):
            break
    out, said = process.communicate(timeout=120)
    if presses == 1:
        assert process.returncode == 0, said
        assert line.startswith("kept True")
        assert "PsimlearnWarning: fit: Ctrl-C ended the choice of settings early" in said
    else:
        assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
        assert "KeyboardInterrupt" in said
        assert "kept" not in out
