# Experiments: trials shard by shard, then estimates. Which files an experiment reads: lensproof/experiments/catalogue.py.


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


rule observations_shard:
    """One experiment on a few test sequences: a row per trial."""
    input:
        unpack(experiment_inputs),
        checkpoint="results/checkpoints/{checkpoint}/checkpoint.json",
        sequences=f"results/sequences/{{checkpoint}}/{settings.corpus}.parquet",
    output:
        "results/observations/lexframe/{experiment}/{checkpoint}/shard_{shard}.parquet",
    log:
        "results/logs/{experiment}/{checkpoint}/{shard}.log",
    benchmark:
        "results/benchmarks/{experiment}/{checkpoint}/{shard}.tsv"
    wildcard_constraints:
        experiment="|".join(EXPERIMENTS),
    conda:
        "../../envs/lensproof.yaml"
    threads: settings.threads
    resources:
        gpu=GPU,
    params:
        code=lambda wildcards: code_hash("observe", f"lensproof.experiments.{wildcards.experiment}"),
        inputs=lambda wildcards: as_flags(experiment_inputs(wildcards)),
        options=lambda wildcards: experiment_options(wildcards.experiment),
        share=lambda wildcards: share(
            wildcards.shard, *settings.experiments.sizes(wildcards.experiment, wildcards.checkpoint)
        ),
        seed=settings.seed,
        machine=lambda wildcards: (
            f"--device {settings.device} --precision {experiment_precision(wildcards.experiment)}"
        ),
    shell:
        "lensproof --log {log} observe {wildcards.experiment} --checkpoint results/checkpoints/{wildcards.checkpoint} "
        "--sequences {input.sequences} {params.inputs} --options {params.options:q} {params.share} --seed {params.seed} "
        "{params.machine} --threads {threads} --out {output}"


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


rule estimates:
    """An experiment's estimates for one checkpoint, with intervals over documents."""
    input:
        lambda wildcards: observed(wildcards.experiment, wildcards.checkpoint),
    output:
        "results/estimates/lexframe/{experiment}/{checkpoint}.parquet",
    log:
        "results/logs/{experiment}/{checkpoint}.log",
    benchmark:
        "results/benchmarks/estimates/{experiment}/{checkpoint}.tsv"
    wildcard_constraints:
        experiment="|".join([*EXPERIMENTS, *DERIVED]),
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=lambda wildcards: code_hash("estimate", f"lensproof.statistics.{wildcards.experiment}"),
        resamples=settings.bootstrap.resamples,
        level=settings.bootstrap.level,
        seed=settings.seed,
    shell:
        "lensproof --log {log} estimate {wildcards.experiment} {input} --resamples {params.resamples} "
        "--level {params.level} --seed {params.seed} --out {output}"


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


rule timings:
    """What fitting the Jacobian lens, calibrating and reading cost in this run."""
    input:
        "results/artifacts/{checkpoint}/jacobian_lens.safetensors",
        "results/artifacts/{checkpoint}/typical_attention.safetensors",
        lambda wildcards: readings_observed(wildcards.checkpoint),
    output:
        "results/observations/lexframe/costs/{checkpoint}/shard_000.parquet",
    log:
        "results/logs/costs/{checkpoint}/000.log",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("timings"),
        jobs=lambda wildcards: timed_jobs(wildcards.checkpoint),
    shell:
        "lensproof --log {log} timings --checkpoint {wildcards.checkpoint} {params.jobs} --out {output}"
