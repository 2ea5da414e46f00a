"""Steps that subspace identification and predictive states share: settings to try, data matrices, the best model."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from psimlearn.baselines.innovations import InnovationsModel
from psimlearn.checks import counts, whole
from psimlearn.errors import DivergedError, SettingsError
from psimlearn.evaluate import errors_by_horizon
from psimlearn.filter import Scaling
from psimlearn.filter.gaps import conditional_fill
from psimlearn.filter.scaling import standardisation
from psimlearn.recordings.schedule import Schedule, schedule
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import carried_forward

__all__ = ["identified", "one_or_several", "orders_to_try"]

N_REFILLS = 2
"""How often missing entries are filled in by the identified system, to identify it again."""


def orders_to_try(given: int | None, validation: Trajectories | None, most: int, what: str) -> list[int]:
    """The given number of states, or a range of them for validation recordings to choose from."""
    if given is None and validation is None:
        raise SettingsError(f"{what}: required a number, or validation recordings to choose it by; received neither.")
    if given is None:
        spread = {round(2 ** (j / 2)) for j in range(14)}  # 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91
        return sorted(number for number in spread if number <= most) or [most]
    return [whole(given, what, 1, most)]


def one_or_several(given: int | Sequence[int], validation: Trajectories | None, least: int, what: str) -> Sequence[int]:
    """Numbers of rows to try: several only where validation recordings can choose among them."""
    several = counts(given, what, least)
    if len(several) > 1 and validation is None:
        raise SettingsError(
            f"{what}: required one number, or validation recordings to choose by; received {several} and none."
        )
    return several


def identified(
    train: Trajectories,
    validation: Trajectories | None,
    candidates: Callable[[np.ndarray, Schedule], Iterable[InnovationsModel]],
    standardise: bool,
) -> InnovationsModel:
    """The best candidate for standardised recordings, in the units of the recordings.

    Args:
        train: recordings; missing entries are carried forward, then filled in by the best model, and all is repeated.
        validation: recordings to choose by; None takes the first candidate.
        candidates: makes models from standardised, scheduled rows without gaps.
        standardise: each channel is measured in its standard deviation; otherwise all channels share one unit.
    """
    scaling, plan = standardisation(train.values, one_unit=not standardise), schedule(train.offsets)
    x = carried_forward(scaling(train.values)[plan.order], plan)
    model = _best((each.in_units(scaling) for each in candidates(x, plan)), validation, scaling)
    for _ in range(N_REFILLS if np.isnan(train.values).any() else 0):
        expected = model.forecast(train, 1)[:, 0]
        if not np.isfinite(expected).all():
            raise DivergedError(
                "required a filter that stays finite to fill in missing entries, received one that diverged. Use fewer "
                "states, a larger ridge or validation recordings to choose by."
            )
        x = scaling(conditional_fill(train.values, expected, model.V))[plan.order]
        model = _best((each.in_units(scaling) for each in candidates(x, plan)), validation, scaling)
    return model


def _best(models: Iterable[InnovationsModel], validation: Trajectories | None, scaling: Scaling) -> InnovationsModel:
    """The model with the least one-step error, in standardised units, on validation recordings.

    A model whose filter does not forget wins only if no other does: on other recordings it may diverge.
    """
    if validation is None:
        return next(iter(models))
    scored = [(_error(model, validation, scaling), model) for model in models]
    error, winner = min(scored, key=lambda pair: (pair[1].filter_radius >= 1, pair[0]))
    if not np.isfinite(error):
        raise DivergedError(
            "required one number of states with a finite one-step error on the validation recordings, received none. "
            "Use a larger ridge or more recordings."
        )
    return winner


def _error(model: InnovationsModel, validation: Trajectories, scaling: Scaling) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(errors_by_horizon(model, validation, scale=scaling.scale)[0])
