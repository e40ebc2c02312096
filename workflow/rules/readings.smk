# Readings against the model's output (LexFrame, table 1 and figure 4): trials, then estimates.


rule readings_shard:
    """Every reading of every layer of a few test sequences."""
    input:
        checkpoint="results/checkpoints/{checkpoint}/checkpoint.json",
        sequences=f"results/sequences/{{checkpoint}}/{settings.corpus}.parquet",
        typical="results/artifacts/{checkpoint}/typical_attention.safetensors",
        lens="results/artifacts/{checkpoint}/jacobian_lens.safetensors",
    output:
        "results/observations/lexframe/readings/{checkpoint}/shard_{shard}.parquet",
    log:
        "results/logs/readings/{checkpoint}/{shard}.log",
    benchmark:
        "results/benchmarks/readings/{checkpoint}/{shard}.tsv"
    conda:
        "../../envs/lensproof.yaml"
    threads: settings.threads
    resources:
        gpu=GPU,
    params:
        code=code_hash("readings"),
        share=lambda wildcards: share(wildcards.shard, settings.sequences(wildcards.checkpoint), READINGS.shard),
        orders=",".join(map(str, READINGS.orders)),
        layers=lambda wildcards: readings_layers(wildcards.checkpoint),
        machine=MACHINE,
    shell:
        "lensproof --log {log} readings --checkpoint results/checkpoints/{wildcards.checkpoint} "
        "--sequences {input.sequences} --typical {input.typical} --lens {input.lens} {params.share} "
        "--orders {params.orders} --layers {params.layers} {params.machine} --threads {threads} --out {output}"


rule readings_estimates:
    """Divergence, agreement and calibration error with intervals over documents."""
    input:
        lambda wildcards: readings_observed(wildcards.checkpoint),
    output:
        "results/estimates/lexframe/readings/{checkpoint}.parquet",
    log:
        "results/logs/readings/{checkpoint}.log",
    benchmark:
        "results/benchmarks/estimates/readings/{checkpoint}.tsv"
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("estimate", "lensproof.statistics.readings"),
        preset=settings.preset,  # recorded with them, and verdicts of several presets are not compared
        resamples=settings.bootstrap.resamples,
        level=settings.bootstrap.level,
        seed=settings.seed,
    shell:
        "lensproof --log {log} estimate readings {input} --resamples {params.resamples} --level {params.level} "
        "--seed {params.seed} --out {output}"
