"""Run a model and keep its residual states and writes."""
