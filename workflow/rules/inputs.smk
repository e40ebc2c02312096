# What rules read and what they are told, where that is more than a line. Functions only.

TRANSLATORS = settings.experiments.translators


def readings_observed(checkpoint):
    """All shards of the readings of a checkpoint."""
    names = shards(settings.sequences(checkpoint), READINGS.shard)
    return [f"results/observations/lexframe/readings/{checkpoint}/shard_{shard}.parquet" for shard in names]


def readings_layers(checkpoint):
    """The layers that are read, as a flag's value."""
    depth = registered("checkpoints", checkpoint).layers
    return "all" if READINGS.layers == "all" else ",".join(map(str, chosen_layers(READINGS.layers, depth)))


def translator_groups(checkpoint):
    """The layers of the tuned lens, in groups that one job trains."""
    depth = registered("checkpoints", checkpoint).layers
    layers = [layer for layer in chosen_layers(TRANSLATORS.layers, depth) if layer < depth]
    return [layers[start : start + TRANSLATORS.group] for start in range(0, len(layers), TRANSLATORS.group)]


def experiment_inputs(wildcards):
    """The fitted artifacts and other files that an experiment reads."""
    name, experiment = wildcards.checkpoint, EXPERIMENTS[wildcards.experiment]
    fields = {
        "checkpoint": name,
        "sequence_length": settings.sequence_length,
        **getattr(settings.experiments, wildcards.experiment).model_dump(),
    }
    fitted = {artifact: f"results/artifacts/{name}/{artifact}.safetensors" for artifact in experiment.inputs}
    for part in range(2, fields["calibrations"] + 1) if experiment.calibrations else ():
        fitted[f"calibration_{part}"] = f"results/artifacts/{name}/calibrations/typical_{part}.safetensors"
    return fitted | {key: template.format(**fields) for key, template in experiment.files.items()}


def as_flags(files):
    """``--input NAME=FILE`` for each."""
    return " ".join(f"--input {name}={shlex.quote(file)}" for name, file in files.items())


def experiment_precision(experiment):
    """Directions are made in float32 whatever the precision of the run."""
    return "float32" if EXPERIMENTS[experiment].float32 else settings.precision


def experiment_options(experiment):
    """Its section of the configuration as JSON, and how many sequences typical attention was calibrated on."""
    section = getattr(settings.experiments, experiment).model_dump()
    return json.dumps({**section, "calibration": settings.calibration.sequences})


def observed(experiment, checkpoint):
    """All shards that an experiment's estimates of a checkpoint are made from; of a training series, those of all its
    members."""
    if experiment in DERIVED:
        source = DERIVED[experiment]
        return readings_observed(checkpoint) if source == "readings" else timings(checkpoint)
    series = settings.experiments.training.series if experiment == "training" else {}
    return [
        f"results/observations/lexframe/{source}/{name}/shard_{shard}.parquet"
        for source in (experiment, *BESIDE.get(experiment, ()))
        for name in series.get(checkpoint, [checkpoint])
        for shard in shards(*settings.experiments.sizes(source, name))
    ]


def timings(checkpoint):
    """What jobs of a checkpoint cost."""
    return [f"results/observations/lexframe/costs/{checkpoint}/shard_000.parquet"]


def timed_jobs(checkpoint):
    """(step, items) -> benchmark files of fitting the Jacobian lens, calibrating and reading.

    Benchmark files are no inputs: a job that was not run in this folder left none, and none is worth a rerun.
    """
    folder = "results/benchmarks"
    sizes = {
        "jacobian_lens": (LENS.prompts, LENS.shard),
        "readings": (settings.sequences(checkpoint), READINGS.shard),
    }
    jobs = [("calibration", settings.calibration.sequences, f"{folder}/typical_attention/{checkpoint}.tsv")]
    for step, (total, size) in sizes.items():
        for shard in shards(total, size):
            items = min(size, total - int(shard) * size)
            jobs.append((step, items, f"{folder}/{step}/{checkpoint}/{shard}.tsv"))
    return " ".join(f"--job {step}:{items}={file}" for step, items, file in jobs)


def shown(experiments):
    """The estimates of every checkpoint that a figure or table shows."""
    return [
        f"results/estimates/lexframe/{experiment}/{checkpoint}.parquet"
        for experiment in experiments
        for checkpoint in settings.checkpoints
        if experiment != CLAIMS_TABLE
    ] + (["results/claims.csv"] if CLAIMS_TABLE in experiments else [])
