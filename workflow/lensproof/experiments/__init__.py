"""One module per experiment: a model and its data in, one row per trial out."""
