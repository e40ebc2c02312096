# Experiments: trials shard by shard, then estimates. Which files an experiment reads: lensproof/experiments/catalogue.py.


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
        preset=settings.preset,  # recorded with them, and verdicts of several presets are not compared
        resamples=settings.bootstrap.resamples,
        level=settings.bootstrap.level,
        seed=settings.seed,
    shell:
        "lensproof --log {log} estimate {wildcards.experiment} {input} --resamples {params.resamples} "
        "--level {params.level} --seed {params.seed} --out {output}"


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
