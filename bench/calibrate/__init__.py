"""Calibration: the ceilings of the load generator, and the noise of the host."""
