"""How good a forecaster is: horizons, folds, comparison, calibration, residuals."""
