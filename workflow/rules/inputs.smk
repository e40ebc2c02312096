# What rules read and what they are told, where that is more than a line. Functions only.

TRANSLATORS = settings.experiments.translators
BENCHMARK = settings.benchmark
# Claim -> the experiments whose estimates its verdict needs.
CLAIMS = catalogue.inputs()


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


def lens_size(checkpoint):
    """Prompts of a checkpoint's Jacobian lens, and prompts per shard: where only Gathered reads, those of its band."""
    size = LENS if checkpoint in settings.checkpoints else settings.gathered.lens
    return size.prompts, size.shard


def lowest_layer(checkpoint):
    """The lowest layer of its Jacobian lens."""
    return 0 if checkpoint in settings.checkpoints else band(registered("checkpoints", checkpoint).layers)[0]


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
        "jacobian_lens": lens_size(checkpoint),
        "readings": (settings.sequences(checkpoint), READINGS.shard),
    }
    jobs = [("calibration", settings.calibration.sequences, f"{folder}/typical_attention/{checkpoint}.tsv")]
    for step, (total, size) in sizes.items():
        for shard in shards(total, size):
            items = min(size, total - int(shard) * size)
            jobs.append((step, items, f"{folder}/{step}/{checkpoint}/{shard}.tsv"))
    return " ".join(f"--job {step}:{items}={file}" for step, items, file in jobs)


def instances(records):
    """How many semantic instances of a record set are run."""
    return settings.gathered.instances[family(records)]


def states_of(checkpoint, records):
    """All shards of a record set's states at the query position."""
    folder = f"results/artifacts/{checkpoint}/query_states/{records}"
    return [f"{folder}/shard_{shard}.safetensors" for shard in shards(instances(records), settings.gathered.shard)]


def states(wildcards):
    """Those that one job of an experiment on benchmark records takes."""
    own = states_of(wildcards.checkpoint, wildcards.records)
    return own if ON_RECORDS[wildcards.experiment].takes == "all" else [own[int(wildcards.shard)]]


def fitted(wildcards):
    """The fitted artifacts that an experiment on benchmark records reads."""
    names = ON_RECORDS[wildcards.experiment].inputs
    return {name: f"results/artifacts/{wildcards.checkpoint}/{name}.safetensors" for name in names}


def gathered_observed(experiment, checkpoint):
    """All that the estimates of an experiment on benchmark records are made from, for one checkpoint."""
    folder = f"results/observations/gathered/{experiment}/{checkpoint}"
    by_shard = ON_RECORDS[experiment].takes == "shard"
    return [
        f"{folder}/{records}/shard_{shard}.parquet"
        for records in settings.record_sets(experiment, checkpoint)
        for shard in (shards(instances(records), settings.gathered.shard) if by_shard else ["000"])
    ]


def shown(paper, experiments):
    """The estimates of every checkpoint of a paper that a figure or table shows."""
    return [
        f"results/estimates/{paper}/{experiment}/{checkpoint}.parquet"
        for experiment in experiments
        for checkpoint in CHECKPOINTS[paper]
        if experiment != CLAIMS_TABLE
    ] + (["results/claims.csv"] if CLAIMS_TABLE in experiments else [])


def listed(catalogue):
    """Paper, name and experiments of every figure or table."""
    return [(paper, name, needed) for paper, own in catalogue.items() for name, needed in own.items()]


def drawn(paper):
    """All files of a paper's figures and tables."""
    figures = expand(
        "results/figures/{paper}/{name}.{form}", paper=paper, name=FIGURES[paper], form=["pdf", "svg", "png", "md"]
    )
    tables = expand("results/tables/{paper}/{name}.{form}", paper=paper, name=TABLES[paper], form=["csv", "md", "tex"])
    return figures + tables


def passage_files(name):
    """The files of passages that stand in a folder here; other sources have none."""
    source = registered("passages", name).source
    return sorted(map(str, Path(source.path).rglob("*.txt"))) if source.kind == "path" else []


def passages_of(checkpoint):
    """The passages that its records are made of, as a list; a planted model has those of its own world."""
    planted = registered("checkpoints", checkpoint).source.kind == "planted"
    return [] if planted else [f"results/passages/{BENCHMARK.passages}.json"]


def paper_of(claim):
    """The paper that makes a claim."""
    return CLAIMS[claim][0].partition("/")[0]


def facts(claim):
    """What a verdict must know of each checkpoint that a claim is judged on, as flags."""
    names = CHECKPOINTS[paper_of(claim)]
    tied = {name: settings.registry.checkpoints[name].tied for name in names}
    flags = [f"--{'tied' if tied[name] else 'untied'} {name}" for name in names]
    return " ".join(flags + [f"--planted {name}" for name in names if settings.planted(name)])
