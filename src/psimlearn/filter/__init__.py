"""The learnt filter and how it runs: features, regressors, the step, whole recordings, live streams."""
