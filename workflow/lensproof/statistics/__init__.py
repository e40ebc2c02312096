"""From trials to estimates: cluster bootstrap, contrasts, calibration error. Plain functions over arrays."""
