"""Doubt: covariances and their square roots say the same, streams with one pattern of gaps share one doubt."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag

from psimlearn.errors import DivergedError
from psimlearn.filter import spreads
from psimlearn.filter.doubt import Doubt, conditioned, moved, together
from psimlearn.filter.spreads import Covariances, Roots, kind_of

RNG = np.random.default_rng
N, S, FIRST = 3, 7, 2
"""Channels, the width of the memory, and where the expected observation begins in it."""


def covariance(n: int, rng: np.random.Generator) -> np.ndarray:
    root = rng.standard_normal((n, n))
    return root @ root.T / n + 0.1 * np.eye(n)


def close(a: Any, b: Any, atol: float = 1e-9) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


patterns = st.lists(st.lists(st.booleans(), min_size=N, max_size=N), min_size=1, max_size=5).map(np.array)


# -- two ways to keep a doubt ------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(seen=patterns, columns=st.integers(0, S + 2), seed=st.integers(0, 10_000), apart=st.booleans())
def test_roots_and_covariances_say_the_same(seen: np.ndarray, columns: int, seed: int, apart: bool) -> None:
    rng, g = RNG(seed), len(seen)
    R = rng.standard_normal((g, S, columns))
    P = R @ R.swapaxes(1, 2)
    V = np.stack([covariance(N, rng) for _ in range(g)]) if apart else covariance(N, rng)
    dense, roots = Covariances(), Roots()
    gain, J = dense.given(P, V, seen, FIRST)
    gain_of_roots, left = roots.given(R, V, seen, FIRST)
    close(gain_of_roots, gain)
    close([roots.whole(each) for each in left], [dense.whole(each) for each in J])
    T = rng.standard_normal((g, S, S + N)) if apart else rng.standard_normal((S, S + N))
    after, root_after = dense.moved(J, T, 0.0), roots.moved(left, T, 0.0)
    close(root_after @ root_after.swapaxes(1, 2), after)
    close(roots.variances(root_after), dense.variances(after))
    M = rng.standard_normal((4, S))
    close(roots.between(root_after, M), dense.between(after, M))
    M = rng.standard_normal((g, 4, S)) if apart else M
    close(roots.along(root_after, M), dense.along(after, M))


@settings(max_examples=60, deadline=None)
@given(seen=st.lists(st.booleans(), min_size=N, max_size=N).map(np.array), seed=st.integers(0, 10_000))
@pytest.mark.parametrize("kind", [Covariances(), Roots()], ids=["covariances", "roots"])
def test_both_are_the_conditional_gaussian(kind: Covariances | Roots, seen: np.ndarray, seed: int) -> None:
    """[S; x] with x = H S + noise, conditioned on the seen entries by the formula of any textbook."""
    rng = RNG(seed)
    R, V = rng.standard_normal((S, 4)), covariance(N, rng)
    H = np.eye(N, S, FIRST)
    E = np.block([[np.eye(S), np.zeros((S, N))], [H, np.eye(N)]])
    joint = E @ block_diag(R @ R.T, V) @ E.T
    o = S + np.flatnonzero(seen)
    K = np.linalg.solve(joint[np.ix_(o, o)], joint[o]).T
    spread = R @ R.T if isinstance(kind, Covariances) else R
    gain, left = kind.given(spread[None], V, seen[None], FIRST)
    close(gain[0][:, seen], K)
    assert not gain[0][:, ~seen].any()
    close(kind.whole(left[0]), joint - K @ joint[o])


def test_wide_memories_keep_roots() -> None:
    assert isinstance(kind_of(spreads.WIDE), Roots)
    assert isinstance(kind_of(spreads.WIDE - 1), Covariances)


# -- groups ------------------------------------------------------------------------------------------------------------


def taken(kind: Covariances | Roots, doubt: Doubt | None, seen: np.ndarray, T: np.ndarray, V: np.ndarray) -> Any:
    """One row of all streams: the value given the row, and the doubt after it."""
    given = conditioned(kind, doubt, V, seen, FIRST, S, np.zeros(len(seen), dtype=np.int64))
    return given, moved(kind, given, T, float(np.trace(V)) / N)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.lists(st.integers(0, 2**N - 1), min_size=6, max_size=6), min_size=1, max_size=5).map(np.array),
    seed=st.integers(0, 10_000),
)
@pytest.mark.parametrize("kind", [Covariances(), Roots()], ids=["covariances", "roots"])
def test_streams_share_a_doubt_if_and_only_if_their_pattern_is_the_same(
    kind: Covariances | Roots, rows: np.ndarray, seed: int
) -> None:
    """Each of six streams has the covariance that it has alone; entries of `rows` are patterns in bits."""
    rng = RNG(seed)
    T, V = rng.standard_normal((S, S + N)) / 4, covariance(N, rng)
    seen = (rows[:, :, None] >> np.arange(N) & 1).astype(bool)
    doubt: Doubt | None = None
    alone: list[Doubt | None] = [None] * 6
    for now in seen:
        given, doubt = taken(kind, doubt, now, T, V)
        for i in range(6):
            alone[i] = taken(kind, alone[i], now[[i]], T, V)[1]
    group = given.group
    for i, j in product(range(6), repeat=2):
        if min(group[i], group[j]) >= 0:
            assert (group[i] == group[j]) == np.array_equal(rows[:, i], rows[:, j])
    assert [int(group[i]) for i in given.first] == list(range(len(given.first)))
    if doubt is None:
        assert not any(alone)
        return
    assert sorted(set(doubt.group[doubt.group >= 0])) == list(range(len(doubt.spread)))
    eye = np.eye(S)
    for each, one in zip(doubt.by_stream(kind.between(doubt.spread, eye)), alone, strict=True):
        close(each, 0.0 if one is None else kind.between(one.spread, eye)[0])


def test_labels_keep_streams_apart() -> None:
    seen = np.zeros((4, N), dtype=bool)
    given = conditioned(Covariances(), None, np.eye(N), seen, FIRST, S, np.array([0, 1, 0, 1]))
    np.testing.assert_array_equal(given.group, [0, 1, 0, 1])


@pytest.mark.parametrize("kind", [Covariances(), Roots()], ids=["covariances", "roots"])
def test_doubt_dies_away_once_everything_is_seen(kind: Covariances | Roots) -> None:
    rng = RNG(0)
    T, V = rng.standard_normal((S, S + N)) / 6, covariance(N, rng)
    seen = np.ones((3, N), dtype=bool)
    assert taken(kind, None, seen, T, V)[1] is None
    seen[0, 1], seen[2] = False, False
    _, doubt = taken(kind, None, seen, T, V)
    assert doubt is not None
    np.testing.assert_array_equal(doubt.group >= 0, [True, False, True])
    rows = 0
    while doubt is not None and rows < 200:
        _, doubt = taken(kind, doubt, np.ones((3, N), dtype=bool), T, V)
        rows += 1
    assert 5 < rows < 60


# -- values of many streams --------------------------------------------------------------------------------------------


def test_doubts_of_single_streams_come_together_and_apart() -> None:
    rng = RNG(1)
    wide, narrow = rng.standard_normal((2, S, 3)), rng.standard_normal((1, S, 1))
    many = together([None, Doubt(np.array([1]), wide), Doubt(np.array([-1]), wide), Doubt(np.array([0]), narrow)])
    assert many is not None
    np.testing.assert_array_equal(many.group, [-1, 0, -1, 1])
    of_stream = many.by_stream(Roots().between(many.spread, np.eye(S)))
    close(of_stream, [np.zeros((S, S)), wide[1] @ wide[1].T, np.zeros((S, S)), narrow[0] @ narrow[0].T])
    np.testing.assert_array_equal(many.at([3, 0]).group, [1, -1])
    np.testing.assert_array_equal(many.at(slice(1, 3)).group, [0, -1])
    np.testing.assert_array_equal(many.at(3).group, [1])
    np.testing.assert_array_equal(many.members(), [1, 3])
    left = many.without(np.array([True, True, False, False]))
    assert left is not None
    np.testing.assert_array_equal(left.group, [-1, -1, -1, 1])
    assert left.without(np.array([False, False, False, True])) is None
    assert together([None, Doubt(np.array([-1]), wide)]) is None
    assert together([]) is None


def test_doubt_beyond_the_precision_of_numbers_is_an_error_of_ours() -> None:
    """A filter that diverges in gaps, as a forged one: noise of 1 is lost beside variances of 1e30."""
    with pytest.raises(DivergedError, match=r"received one that is singular: the filter diverges in gaps\. Fit again"):
        Covariances().given(np.full((1, 3, 3), 2.0**100), np.eye(2), np.ones((1, 2), dtype=bool), 0)
