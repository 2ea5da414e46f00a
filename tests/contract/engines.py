"""Every engine that runs a filter, as a function of a filter and recordings that returns what the engine says of them.

This is the one place in the contract that knows how engines are called. Answers are those of `readings.py`: an engine
that cannot say something leaves it out, and `REFUSALS` in `test_machine.py` says which engines do, and why.
"""

import ctypes
import json
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from compiled import COMPILERS, STRICT
from contract.readings import COVERAGE, HORIZON, RATE, Answers
from psimlearn.errors import SettingsError
from psimlearn.export import export
from psimlearn.filter import Filter, Prediction, State
from psimlearn.filter.alarms import alarm_scores
from psimlearn.filter.chunked import chunk_length
from psimlearn.filter.gapped import LEAST_CHUNK
from psimlearn.filter.likelihood import doubt_of_row, log_likelihood
from psimlearn.filter.live import Live
from psimlearn.filter.predict import forecast_blind, foretold
from psimlearn.filter.rollout import table
from psimlearn.filter.straight import passes
from psimlearn.filter.stretches import fresh, joined, take_stretch
from psimlearn.recordings.schedule import grids
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.recordings.windows import example_rows

__all__ = ["ENGINES", "Engine", "back_propagation", "in_c", "is_cut", "moments_of"]

Engine = Callable[[Filter, Trajectories], Answers]


def moments_of(data: Trajectories) -> tuple[np.ndarray, np.ndarray]:
    """The places of the moments before every row, and of those after the last rows, among all moments."""
    number = np.repeat(np.arange(len(data)), data.lengths)
    return np.arange(len(data.values)) + number, data.offsets[1:] + np.arange(len(data))


def placed(data: Trajectories, before: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Values before every row and after the last rows, as values of moments."""
    rows, ends = moments_of(data)
    out = np.empty((len(rows) + len(ends), *before.shape[1:]))
    out[rows], out[ends] = before, end
    return out


def coming(data: Trajectories, ends: bool = False) -> np.ndarray | None:
    """The inputs of the next rows before every row, or after the last rows; the last inputs are held."""
    if data.inputs is None:
        return None
    first, last = (data.offsets[1:] if ends else np.arange(len(data.values))), data.offsets[1:] - 1
    last = last if ends else np.repeat(last, data.lengths)
    out: np.ndarray = data.inputs[np.minimum(first[:, None] + np.arange(HORIZON), last[:, None])]
    return out


def standardised(filter: Filter, rows: np.ndarray) -> np.ndarray:
    return np.asarray((rows - filter.scaling.mean) / filter.scaling.scale)


def foreseen(filter: Filter, prediction: Prediction) -> Answers:
    """The parts of a prediction of all rows ahead."""
    low, high = prediction.interval(COVERAGE)
    scale = filter.scaling.scale
    mean = standardised(filter, prediction.mean)
    return {"ahead": mean, "std": prediction.std / scale, "reach": (high - low) / 2 / scale}


# -- whole recordings --------------------------------------------------------------------------------------------------


def whole(filter: Filter, data: Trajectories) -> Answers:
    """All recordings at once."""
    window, driven = filter.features.window, filter.input_scaling is not None
    before, end = filter.run(data)
    held = end.belief
    if filter.feedthrough and data.inputs is not None:  # the last inputs are held either way
        held = filter.run(data, data.inputs[data.offsets[1:] - 1])[1].belief
    at_rows = foreseen(filter, foretold(filter, data, HORIZON))
    at_ends = foreseen(filter, filter.predict(end, HORIZON, coming(data, ends=True)))
    unknown, last = foretold(filter, data, window, inputs_known=False), filter.predict(end, window)
    means = forecast_blind(filter, data, window), filter.ahead(end._replace(belief=held), window)
    out = {name: placed(data, at_rows[name], at_ends[name]) for name in at_rows}
    out["ahead"] = placed(data, standardised(filter, filter.forecast(data, HORIZON)), at_ends["ahead"])
    out["belief"] = placed(data, before, end.belief)
    out["blind"] = standardised(filter, placed(data, *means))
    out["blind_std"] = placed(data, unknown.std, last.std) / filter.scaling.scale
    if not driven:
        out["inside"] = out["ahead"][:, :window]
    out["nats"] = filter.log_likelihood(data)
    if filter.hinting is not None:
        out["hints"] = filter.hints(data)
    if filter.thresholds is None:
        return out
    alarms = filter.alarms(data, RATE)
    rung = np.where(alarms.alarm, [-2 if channel is None else channel for channel in alarms.channel], -1)
    return out | {"score": alarms.score, "alarm": rung}


def compiled(filter: Filter, data: Trajectories) -> Answers:
    """Whole recordings and one live stream by compiled loops, which numpy leaves to larger jobs."""
    if find_spec("numba") is None or not passes(filter):
        return {}
    with patch("psimlearn.filter.compiling.LEAST_ROWS", 0):
        before, end = filter.run(data)
        ahead = filter.forecast(data, HORIZON)
        nats = filter.log_likelihood(data)
    after = np.broadcast_to(np.nan, (len(data), *ahead.shape[1:]))
    ahead = placed(data, standardised(filter, ahead), after)
    return {"belief": placed(data, before, end.belief), "nats": nats, "ahead": ahead}


def is_cut(filter: Filter, data: Trajectories) -> bool:
    """Whether recordings are so long that they are cut into chunks, which run at once."""
    return chunk_length(table(filter, data).layout.plan, LEAST_CHUNK) is not None


# -- streams -----------------------------------------------------------------------------------------------------------


def asked(live: Live, blind: Live, future: np.ndarray | None) -> Answers:
    """What live streams say between two rows; `blind` was not told the next inputs. Streams come first."""
    filter, window = live.filter, live.filter.features.window
    shape = (live.n_streams, -1, len(filter.scaling.mean))
    known: Any = {} if future is None else {"future_inputs": future if live.n_streams > 1 else future[0]}
    mean, std = live.forecast(HORIZON, return_std=True, **known)
    _, low, high = live.forecast(HORIZON, coverage=COVERAGE, **known)
    inside, inside_std = live.forecast(window, return_std=True)
    unknown, blind_std = (inside, inside_std) if blind is live else blind.forecast(window, return_std=True)
    rows = {"ahead": mean, "inside": inside, "blind": unknown}
    out = {name: standardised(filter, np.reshape(values, shape)) for name, values in rows.items()}
    spreads = {"std": std, "reach": (high - low) / 2, "inside_std": inside_std, "blind_std": blind_std}
    out |= {name: np.reshape(values, shape) / filter.scaling.scale for name, values in spreads.items()}
    return out | {"belief": live.belief.reshape(live.n_streams, -1)}


def told(live: Live) -> Answers:
    """What live streams say of their last row."""
    alarm, channel = np.reshape(live.alarm, -1), np.reshape(live.alarm_channel, -1)
    rung = [(-2 if c is None else c) if rings else -1 for rings, c in zip(alarm, channel, strict=True)]
    out = {"nats": np.reshape(live.log_likelihood, -1), "alarm": np.array(rung)}
    return out if live.filter.hinting is None else out | {"hints": live.hints.reshape(live.n_streams, -1)}


def gathered(parts: Sequence[Answers]) -> Answers:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def live(filter: Filter, data: Trajectories) -> Answers:
    """One live stream, started again before every recording."""
    stream, of_moments, of_rows = Live(filter, alarm=RATE), [], []
    for part in data:
        stream.reset()
        blind = stream
        for t in range(len(part) + 1):
            u = None if part.inputs is None else part.inputs[np.minimum(np.arange(t, t + HORIZON + 1), len(part) - 1)]
            of_moments.append(asked(stream, blind, None if u is None else u[None, :HORIZON]))
            if t < len(part):
                if filter.feedthrough and u is not None:
                    blind = stream.copy()
                    blind.update(part.values[t], u[0])
                stream.update(part.values[t], *(() if u is None else (u[0], u[1])))
                blind = blind if filter.feedthrough else stream
                of_rows.append(told(stream))
    return gathered(of_moments) | gathered(of_rows)


def bank(filter: Filter, data: Trajectories) -> Answers:
    """A bank with a stream for each recording, which starts again when its recording ends, and is then not asked."""
    streams = Live(filter, len(data), alarm=RATE)
    blind, clock, last = streams, np.zeros(len(data), dtype=int), data.lengths - 1
    of_moments: list[list[Answers]] = [[] for _ in data]
    of_rows: list[list[Answers]] = [[] for _ in data]
    for t in range(int(data.lengths.max()) + 1):
        steps = data.offsets[:-1, None] + np.minimum(clock[:, None] + np.arange(HORIZON + 1), last[:, None])
        u = None if data.inputs is None else data.inputs[steps]
        said = asked(streams, blind, None if u is None else u[:, :HORIZON])
        for i in np.flatnonzero(t <= data.lengths):
            of_moments[i].append({name: values[[i]] for name, values in said.items()})
        ended = clock == data.lengths
        streams.reset(ended)
        clock[ended] = 0
        x = data.values[data.offsets[:-1] + clock]
        if u is not None:
            steps = data.offsets[:-1, None] + np.minimum(clock[:, None] + np.arange(2), last[:, None])
            u = data.inputs[steps]  # type: ignore[index]
        if filter.feedthrough and u is not None:
            blind = streams.copy()
            blind.update(x, u[:, 0])
        streams.update(x, *(() if u is None else (u[:, 0], u[:, 1])))
        blind, clock = blind if filter.feedthrough else streams, clock + 1
        rows = told(streams)
        for i in np.flatnonzero(t < data.lengths):
            of_rows[i].append({name: values[[i]] for name, values in rows.items()})
    return gathered([each for stream in of_moments for each in stream]) | gathered(
        [each for stream in of_rows for each in stream]
    )


def of_states(filter: Filter, data: Trajectories, before: State, end: State) -> Answers:
    """What the states before every row and after the last rows say."""
    rows, ends = (
        foreseen(filter, filter.predict(state, HORIZON, inputs))
        for state, inputs in ((before, coming(data)), (end, coming(data, ends=True)))
    )
    x, doubt = filter.scaling(data.values), doubt_of_row(filter, before)
    out = {name: placed(data, rows[name], ends[name]) for name in rows}
    out["belief"] = placed(data, before.belief, end.belief)
    out["inside"] = filter.features.observations(out["belief"])
    nats, score = log_likelihood(filter, before, x, doubt), alarm_scores(filter, before, x, doubt).score
    return out | {"nats": nats, "score": score}


def steps(filter: Filter, data: Trajectories) -> Answers:
    """`Filter.step`: the recordings that go on, one row of each at a time."""
    going, state, met, places, u = np.arange(len(data)), filter.start(len(data)), [], [], data.inputs
    for t in range(int(data.lengths.max()) + 1):
        met.append(state)
        places.append(data.offsets[going] + going + t)
        some = np.flatnonzero(data.lengths[going] > t)
        if not len(some):
            break
        going, state = going[some], state.at(some)
        rows = data.offsets[going] + t
        following = np.minimum(rows + 1, data.offsets[going + 1] - 1)
        state = filter.step(state, data.values[rows], *(() if u is None else (u[rows], u[following])))
    every = joined(met).at(np.argsort(np.concatenate(places)))
    before, ends = moments_of(data)
    return of_states(filter, data, every.at(before), every.at(ends))


def stretches(filter: Filter, data: Trajectories) -> Answers:
    """All recordings together, in two stretches: half of each recording, then the rest of the recordings that go on."""
    u, first = data.inputs, (data.lengths + 1) // 2
    rest, memory = data.lengths - first, fresh(filter, len(data))
    some = np.flatnonzero(rest)
    halves = [_rows(data.offsets[:-1], first), _rows(data.offsets[:-1][some] + first[some], rest[some])]
    one = take_stretch(filter, memory, data.values[halves[0]], None if u is None else u[halves[0]], first)
    two = take_stretch(
        filter, one.end.at(some), data.values[halves[1]], None if u is None else u[halves[1]], rest[some]
    )
    order = np.argsort(np.concatenate(halves))
    before, after = (joined([a, b]).at(order) for a, b in ((one.before, two.before), (one.after, two.after)))
    out = of_states(filter, data, before, after.at(data.offsets[1:] - 1))
    rows, ends = moments_of(data)
    blind = np.empty((len(rows) + len(ends), len(filter.initial)))
    later = np.setdiff1d(np.arange(len(blind)), ends - data.lengths)
    blind[ends - data.lengths], blind[later] = filter.initial, after.belief
    return out | {"blind": filter.features.observations(blind)}


def _rows(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([start + np.arange(length) for start, length in zip(starts, lengths, strict=True)])


# -- exported files ----------------------------------------------------------------------------------------------------

DRIVER = """
#include "NAME.h"
#if UPPER_INPUTS > 0
#define RUN_NAME_U(t) , u + (t) * UPPER_INPUTS
#else
#define RUN_NAME_U(t)
#endif
#if UPPER_FEEDTHROUGH
#define RUN_NAME_NEXT(t) RUN_NAME_U(t)
#else
#define RUN_NAME_NEXT(t)
#endif
int run_NAME(const double *x, const double *u, int rows, int steps, double *ahead, double *inside, double *nats);
int run_NAME(const double *x, const double *u, int rows, int steps, double *ahead, double *inside, double *nats)
{
    static NAME_state s;
    int t, h, refused = 0;
    (void)u;
    (void)nats;
    NAME_init(&s);
    for (t = 0; t <= rows; t++) {
        for (h = 1; h <= steps; h++, ahead += UPPER_CHANNELS)
#if UPPER_INPUTS > 0
            refused -= NAME_predict_given(&s, h, u + t * UPPER_INPUTS, ahead);
#else
            refused -= NAME_predict(&s, h, ahead);
#endif
        for (h = 1; h <= UPPER_WINDOW; h++, inside += UPPER_CHANNELS) refused -= NAME_predict(&s, h, inside);
        if (t == rows) break;
#if UPPER_LIKELIHOOD
        nats[t] = NAME_log_likelihood(&s, x + t * UPPER_CHANNELS);
#endif
        refused -= NAME_step(&s, x + t * UPPER_CHANNELS RUN_NAME_U(t) RUN_NAME_NEXT(t + 1));
    }
    return refused;
}
"""


def in_c(filters: Sequence[Filter], folder: Path, name: str = "f") -> Sequence[Engine]:
    """The headers of many filters in one library: a compiler takes long to start. Refused filters say nothing."""
    text = []
    for i, filter in enumerate(filters):
        try:
            export(filter, folder / f"{name}{i}.h")
        except SettingsError:
            continue
        text.append(DRIVER.replace("NAME", f"{name}{i}").replace("UPPER", f"{name}{i}".upper()))
    (folder / f"{name}.c").write_text("\n".join(text) + "\nint nothing(void);\nint nothing(void) { return 0; }\n")
    made = folder / f"{name}.so"
    command = [COMPILERS[0], *STRICT, "-O0", "-shared", "-fPIC", f"{name}.c", "-o", str(made), "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    library = ctypes.CDLL(str(made))
    return [partial(_of_header, library, f"run_{name}{i}") for i in range(len(filters))]


def _of_header(library: ctypes.CDLL, name: str, filter: Filter, data: Trajectories) -> Answers:
    if not hasattr(library, name):
        return {}
    parts = []
    for part in data:
        rows, n = part.values.shape
        u = np.empty((0, 0)) if part.inputs is None else part.inputs
        u = u[np.minimum(np.arange(rows + HORIZON + 1), len(u) - 1)] if len(u) else u
        ahead, inside = (np.full((rows + 1, h, n), np.nan) for h in (HORIZON, filter.features.window))
        nats = np.full(rows, np.nan)
        places = [np.ascontiguousarray(a).ctypes.data_as(ctypes.c_void_p) for a in (part.values, u)]
        out = [a.ctypes.data_as(ctypes.c_void_p) for a in (ahead, inside, nats)]
        assert getattr(library, name)(*places, ctypes.c_int(rows), ctypes.c_int(HORIZON), *out) == 0
        parts.append({"ahead": standardised(filter, ahead), "inside": standardised(filter, inside), "nats": nats})
    said = gathered(parts)
    return {name: values for name, values in said.items() if not np.isnan(values).all()}


def header(filter: Filter, data: Trajectories) -> Answers:
    """A C header, compiled alone."""
    with TemporaryDirectory() as folder:
        return in_c([filter], Path(folder))[0](filter, data)


def onnx(filter: Filter, data: Trajectories) -> Answers:
    """An ONNX graph in onnxruntime, recordings as a batch; rows of zeros go on where a recording has ended."""
    import onnxruntime

    options, content = onnxruntime.SessionOptions(), _exported(filter, "f.onnx")
    if content is None:
        return {}
    options.intra_op_num_threads = 1
    running = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    wanted = {part.name: part.shape for part in running.get_inputs()}
    rows, _ = moments_of(data)
    out = np.full((len(rows) + len(data), filter.features.window, len(filter.scaling.mean)), np.nan)
    state = np.zeros((len(data), wanted["state"][1]))
    for t in range(int(data.lengths.max())):
        now, following = (np.minimum(data.offsets[:-1] + t + h, data.offsets[1:] - 1) for h in (0, 1))
        feed = {"x": data.values[now], "state": state}
        if data.inputs is not None:
            feed |= {"u": data.inputs[now], "next_u": data.inputs[following]}
        said, state = running.run(["predictions", "next_state"], {name: feed[name] for name in wanted})
        some = np.flatnonzero(data.lengths > t)
        out[rows[now[some]] + 1] = said[some]
    return {"inside": standardised(filter, out)}


def _exported(filter: Filter, name: str) -> bytes | None:
    """The content of an export; None if it is refused."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        try:
            export(filter, path)
        except SettingsError:
            return None
        return path.read_bytes()


def matrices(filter: Filter, data: Trajectories) -> Answers:
    """The equations of a JSON file: the row that comes next. They know no gaps, and no box."""
    content = _exported(filter, "f.json")
    if content is None or np.isnan(data.values).any() or filter.feedback.low is not None:
        return {}
    file = json.loads(content)
    A, B, C, D, K, mean, drift = (np.array(file[key]) for key in ("A", "B", "C", "D", "K", "mean", "drift"))
    first, out = {key: np.array(value) for key, value in file["start"].items()}, []
    for part in data:
        u = np.zeros((len(part) + 1, 0)) if part.inputs is None else np.append(part.inputs, part.inputs[-1:], axis=0)
        u = u - np.array(file["input_mean"])
        s = first["mean"] + first["inputs"] @ u[0]
        for t in range(len(part) + 1):
            expected = mean + C @ s + D @ u[t]
            out.append(np.full((HORIZON, len(mean)), np.nan))
            out[-1][0] = expected
            if t < len(part):
                x = part.values[t]
                s = s + first["gains"][t] @ (x - expected) if t < len(first["gains"]) else s
                s = A @ s + B @ u[t] + K @ (x - expected) + drift
    return {"ahead": standardised(filter, np.array(out))}


# -- back-propagation --------------------------------------------------------------------------------------------------


def back_propagation(filter: Filter, data: Trajectories) -> Answers:
    """The loop that JAX differentiates: beliefs after the rows that make examples."""
    import jax

    from psimlearn.train.unrolled import closed_loop, fixed_of, form_of, parts_of, weights_of

    try:
        form = form_of(filter, True)
    except SettingsError:
        return {}
    if filter.gaps == "exact" and np.isnan(data.values).any():
        return {}
    plan = table(filter, data).layout.plan
    belief = np.full((len(data.values) + len(data), len(filter.initial)), np.nan)
    rows, _ = moments_of(data)
    with jax.enable_x64(True):
        run = jax.jit(closed_loop(form).rolled)
        places = grids(plan, example_rows(plan, filter.features.window)[0])
        for part, grid in zip(parts_of(filter, data), places, strict=True):
            beliefs = np.asarray(run(weights_of(filter), fixed_of(filter), part, np.zeros_like(part.y))[0])
            belief[rows[plan.order[grid[grid >= 0]]] + 1] = beliefs[grid >= 0]
    return {"belief": belief}


ENGINES: dict[str, Engine] = {
    "steps": steps,
    "whole": whole,
    "compiled": compiled,
    "live": live,
    "bank": bank,
    "stretches": stretches,
    "C header": header,
    "ONNX": onnx,
    "JSON": matrices,
    "JAX": back_propagation,
}
