"""Networks that users would pick instead of a filter, as rivals in the tables of docs/real-data.md.

Both predict changes from the last row, standardised, directly up to `horizon` rows ahead. Each holds a fifth of the
training recordings out to decide when to stop; the recurrent network then trains on all of them for as many epochs.
"""

from sklearn.neural_network import MLPRegressor

from psimlearn.baselines import Lagged
from psimlearn.baselines.tuned import Split, tuned_network
from psimlearn.evaluate import Forecaster
from psimlearn.recordings.trajectories import Trajectories


def perceptron(train: Trajectories, horizon: int = 5, lags: int = 5) -> Forecaster:
    """Two layers of 100 units on the last rows."""
    network = MLPRegressor(hidden_layer_sizes=(100, 100), early_stopping=True, max_iter=500, random_state=0)
    return Lagged.fit(train, network, lags, horizon)


def recurrent(train: Trajectories, horizon: int = 5) -> Forecaster:
    """A gated recurrent unit of 100 states, by Adam; needs the extra `grad`. Its window criterion is that of PSIM."""
    split = Split.of(train)
    return tuned_network(split, horizon, ["gru"], [1e-3, 3e-3], n_epochs=400, criterion="window").forecaster
