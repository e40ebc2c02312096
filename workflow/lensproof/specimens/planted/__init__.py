"""Models whose mechanism is known: small Llama checkpoints with weights written by hand."""
