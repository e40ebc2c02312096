"""From estimates, published values and rules fixed in advance to verdicts."""
