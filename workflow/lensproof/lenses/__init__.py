"""Fixed readings of the residual stream: logit lens, Jacobian lens."""
