"""What the textbook says of recordings: rows ahead with their deviations, likelihoods, alarms and hints, row by row."""

from typing import Any

import numpy as np

from contract.textbook import CALM, MILDER, Book, Stream, lower_root, solved
from psimlearn.filter import Filter
from psimlearn.recordings.trajectories import Trajectories

__all__ = ["COVERAGE", "HORIZON", "RATE", "Answers", "textbook"]

Answers = dict[str, np.ndarray]
"""What a filter says of recordings, standardised. One entry for each moment, of which there is one more than rows:

    belief              m
    ahead, std, reach   the next HORIZON rows, their deviations, half the width of intervals; inputs to come are known
    inside, inside_std  the rows of the window, read from m: with feed-through it knows the next inputs
    blind, blind_std    the same if the next inputs are not known, but held

and one for each row: nats, its log-likelihood; score; hints; alarm, the channel in alarm, -1 where there is none and -2
where nothing was observed.
"""

HORIZON, COVERAGE, RATE = 5, 0.9, 0.05


def textbook(filter: Filter, data: Trajectories, real: Any = np.float64, *, ahead: bool = True) -> Answers:
    """All answers of the textbook; of the rows to come just the belief, if they are not wanted."""
    book, of_moments, of_rows = Book(filter, real), [], []
    for part in data:
        x = (part.values - filter.scaling.mean) / filter.scaling.scale
        last = len(x) - 1
        u = None if part.inputs is None else part.inputs[np.minimum(np.arange(len(x) + HORIZON + 1), last)]
        s, blind, bell = book.start(), book.start(), (False, 0)
        for t in range(len(x) + 1):
            coming = None if u is None else u[t : t + HORIZON]
            of_moments.append(moment(book, s, blind, coming) if ahead else {"belief": s.m})
            if t > last:
                break
            row: dict[str, Any] = rows(book, s, x[t])
            more: dict[str, Any] = {}
            bell = rung(book, bell, row["score"], x[t])
            channel = row.pop("channel")
            row["alarm"] = np.array(channel if bell[0] else -1)
            now = book.controls(None, None) if u is None else book.controls(u[t], u[t + 1])
            held = book.controls(None, None) if u is None else book.controls(u[t], u[t])
            after = book.take(s, x[t], now, more)
            if filter.hinting is not None:
                d = len(filter.initial)
                row["hints"] = more["g"] + more["z"][book.rf :] @ filter.hinting.weights[d:] + filter.hinting.intercept
            of_rows.append(row)
            s, blind = after, book.take(s, x[t], held) if filter.feedthrough else after
    out = {name: np.array([each[name] for each in of_moments]) for name in of_moments[0]}
    return out | {name: np.array([each[name] for each in of_rows]) for name in of_rows[0]}


def moment(book: Book, s: Stream, blind: Stream, coming: np.ndarray | None) -> dict[str, np.ndarray]:
    """The answers about rows to come."""
    window, driven = book.k, book.filter.input_scaling is not None
    unknown = "known" if not driven else "next known" if book.filter.feedthrough else "unknown"
    out = {
        "belief": s.m,
        "ahead": book.blocks(s, HORIZON, coming, book.observations),
        "inside": book.observations(s.m),
        "blind": book.observations(blind.m),
    }
    out["std"], out["reach"] = deviations(book, s, HORIZON, coming, "known")
    at_start = s.clock == 0  # no row told the next inputs
    out["inside_std"] = deviations(book, s, window, None, "unknown" if driven and at_start else unknown)[0]
    out["blind_std"] = deviations(book, blind, window, None, "unknown" if driven else unknown)[0]
    return out


# -- the start: what first rows have of their own ----------------------------------------------------------------------


def doubt_of_start(book: Book, s: Stream) -> np.ndarray | None:
    """The root of the doubt that calibration knows already: of streams of this age that lost no entry.

    Today a stream that was first observed late has all its doubt beside its calibration.
    """
    return book.roots[s.clock] if s.clock < len(book.roots) and not s.late else None


def ratio(book: Book, s: Stream, horizon: np.ndarray) -> np.ndarray:
    """The variance of errors of first rows over that of others. Today a row is first if nothing was observed before."""
    starting = book.filter.starting
    if starting is None or s.age >= len(starting.ratio):
        return np.ones((len(horizon), book.n))
    return np.asarray(starting.ratio[s.age, np.minimum(horizon, starting.ratio.shape[1]) - 1])


def is_first(book: Book, s: Stream) -> bool:
    """Whether the errors of the next row have the covariance of first rows, whatever is in doubt."""
    return book.filter.starting is not None and s.age == 0


# -- deviations --------------------------------------------------------------------------------------------------------


def doubts(book: Book, s: Stream, steps: int) -> np.ndarray:
    """The variances that doubt adds to the next rows."""
    if s.L is None or s.fresh:
        return np.zeros((steps, book.n))
    added, known = book.outlook(s, s.L, steps), doubt_of_start(book, s)
    if known is not None:
        added = np.maximum(added - book.outlook(s, known, steps), 0.0)
    factor = 1.0 if book.filter.in_gaps is None else book.filter.in_gaps.factor[0]
    return np.zeros_like(added) if is_first(book, s) else factor * added.astype(np.float64)


def measured(book: Book, s: Stream, calibration: Any, horizon: np.ndarray, coming: Any) -> np.ndarray:
    """The variances without doubt at these horizons; beyond calibration they grow as the model says."""
    reached, variance = len(calibration.base), np.full((len(horizon), book.n), np.nan)
    own = np.zeros_like(variance)
    if hasattr(book.filter.features, "variance"):
        own = book.blocks(s, len(horizon), coming, book.claims)
    some = horizon <= reached
    variance[some] = calibration.base[horizon[some] - 1] + calibration.gain[horizon[some] - 1] * own[some]
    if not some.all() and book.model:
        grown = book.grown(s, max(reached, int(horizon.max())))
        more = calibration.base[-1] * np.maximum(grown[horizon - 1] / grown[reached - 1], 1.0)
        variance = np.where(some[:, None], variance, more)
    return np.asarray(variance * ratio(book, s, horizon))


def spread(
    book: Book, s: Stream, calibration: Any, horizon: np.ndarray, coming: Any, follow: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Deviations and half-widths of intervals."""
    filter = book.filter
    base = filter.calibration.base  # type: ignore[union-attr]
    variance = measured(book, s, calibration, horizon, coming)
    total, share = variance, np.zeros_like(variance)
    if book.exact:
        near, far = (np.minimum(h, len(base)) - 1 for h in (horizon, horizon + (s.unseen if s.age > 0 else 0)))
        total = variance + np.maximum(doubts(book, s, len(horizon)), base[far] - base[near])
        share = 1 - variance / total
    multiple = at_coverage(calibration.quantiles)[np.minimum(horizon, len(calibration.base)) - 1]
    local, starting, factor = filter.local, filter.starting, np.ones_like(variance)
    ages = 0 if starting is None else len(starting.ratio)
    if local is not None and follow and s.age >= ages and s.unseen == 0:
        place, some = np.minimum(horizon, len(local.power)) - 1, (horizon <= len(local.power))[:, None]
        factor = np.where(some, local.level[place] * np.exp(2 * local.power[place] * sizes(book, s)), 1.0)
        factor = factor ** (1 - share)
        multiple = np.where(some, at_coverage(local.quantiles)[place], multiple)
    if starting is not None and s.age < ages:
        multiple = np.broadcast_to(at_coverage(starting.quantiles)[s.age], variance.shape)
    if filter.in_gaps is not None:
        multiple = (1 - share) * multiple + share * at_coverage(filter.in_gaps.quantiles)
    std = np.sqrt(total * factor)
    return std, std * multiple


def deviations(book: Book, s: Stream, steps: int, coming: Any, inputs: str) -> tuple[np.ndarray, np.ndarray]:
    """Deviations of the next rows, and half-widths of intervals; filled rows without observation count as ahead."""
    filter, rows = book.filter, np.arange(1, steps + 1)
    calibrations = {"known": filter.calibration, "next known": filter.calibration_next}
    if inputs == "next known" and steps == 1:
        inputs = "known"
    own = calibrations.get(inputs, filter.calibration_blind)
    if book.exact:
        return spread(book, s, own, rows, coming, inputs == "known")
    longer = spread(book, s, filter.calibration, rows + s.unseen, coming, inputs == "known")
    if inputs == "known":
        return longer
    shorter = spread(book, s, filter.calibration, rows, coming, False)
    alone = spread(book, s, own, rows, coming, False)
    std, reach = (np.sqrt(a**2 + np.maximum(b**2 - c**2, 0.0)) for a, b, c in zip(alone, longer, shorter, strict=True))
    return std, reach


def at_coverage(quantiles: np.ndarray) -> Any:
    """The quantiles at `COVERAGE`: levels are hundredths."""
    return quantiles[round(100 * COVERAGE) - 1]


def sizes(book: Book, s: Stream) -> np.ndarray:
    """The logs of the sizes of errors, as the situation tells them."""
    local, ahead = book.filter.local, book.observations(s.m)
    assert local is not None
    moved = np.sum(np.diff(ahead, axis=0) ** 2, axis=0) / max(1, len(ahead) - 1) / local.usual
    signs = [np.ones(book.n)]
    for each in (s.unrest, moved):
        signs += [np.log(each + 1e-3), np.full(book.n, np.log(each.mean() + 1e-3))]
    return np.asarray(np.interp(np.stack(signs, axis=1) @ local.weights, local.scores, local.logs))


# -- the row that came -------------------------------------------------------------------------------------------------


def rows(book: Book, s: Stream, x: np.ndarray) -> dict[str, Any]:
    """The log-likelihood of a row, its score, and the channel that fits least."""
    filter, seen = book.filter, ~np.isnan(x)
    calibration, k, n = filter.calibration, int(seen.sum()), book.n
    if not k:
        return {"nats": 0.0, "score": 0.0, "channel": -2}
    assert calibration is not None
    horizon = np.array([1 if book.exact else min(s.unseen + 1, len(calibration.base))])
    own = book.claims(s.m)[0] if hasattr(filter.features, "variance") else np.zeros(n)
    place = horizon[0] - 1
    variance = (calibration.base[place] + calibration.gain[place] * own) * ratio(book, s, horizon)[0]
    deviation = np.sqrt(variance / np.diag(filter.covariance))
    V = filter.covariance * np.outer(deviation, deviation)
    if book.exact and is_first(book, s) and filter.starting is not None:
        V = filter.starting.covariance
    elif s.L is not None and not s.fresh:
        V = V + covariance_of_row(book, s)
    e, root = (x - book.first_block(s.m))[seen], lower_root(V[np.ix_(seen, seen)].astype(book.real))
    distance = float(np.sum(solved(root, e) ** 2))
    size = 2 * np.log(np.diag(root) * filter.scaling.scale[seen]).sum() + k * np.log(2 * np.pi)
    precision = np.linalg.inv((root @ root.T).astype(np.float64))
    channel = int(np.flatnonzero(seen)[np.argmax((precision @ e) ** 2 / np.diag(precision))])
    return {"nats": float(-0.5 * (distance + size)), "score": 0.5 * n * (1 - alike(distance, k, n)), "channel": channel}


def covariance_of_row(book: Book, s: Stream) -> np.ndarray:
    """The covariance that doubt adds to the errors of the next row."""
    assert s.L is not None
    e = slice(book.r, book.r + book.n)
    known = doubt_of_start(book, s)
    added = s.L[e] @ s.L[e].T - (0.0 if known is None else known[e] @ known[e].T)
    factor = 1.0 if book.filter.in_gaps is None else book.filter.in_gaps.factor[0]
    return np.asarray(factor * added)


def alike(distance: float, k: int, n: int) -> float:
    """The mean square of n deviations that is as improbable as a distance of k; by Wilson and Hilferty."""
    if k == n:
        return distance / n
    few, all = 2 / (9 * k), 2 / (9 * n)
    return float((1 - all + (np.cbrt(distance / k) - 1 + few) * np.sqrt(all / few)) ** 3)


def rung(book: Book, bell: tuple[bool, int], score: float, x: np.ndarray) -> tuple[bool, int]:
    """Whether a stream is in alarm, and the calm rows in succession, after a row."""
    thresholds = book.filter.thresholds
    assert thresholds is not None
    if np.isnan(x).all():
        return bell
    calm = 0 if score < thresholds.at(MILDER * RATE) else bell[1] + 1
    return score < thresholds.at(RATE) or (bell[0] and calm < CALM), calm
