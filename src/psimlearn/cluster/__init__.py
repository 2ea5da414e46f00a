"""Passes over shards on other machines: psimlearn.cluster.Dask(client), for `PSIM.fit(shards, engine=..)`."""

from psimlearn.cluster.dask import Dask

__all__ = ["Dask"]
