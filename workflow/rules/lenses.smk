# What is fitted once for each checkpoint: typical attention, the Jacobian lens and the ridge probe.


rule typical_attention:
    """Typical attention of every block, from one pass over calibration text."""
    input:
        checkpoint="results/checkpoints/{checkpoint}/checkpoint.json",
        sequences=f"results/sequences/{{checkpoint}}/{settings.corpus}.parquet",
    output:
        "results/artifacts/{checkpoint}/typical_attention.safetensors",
    log:
        "results/logs/typical_attention/{checkpoint}.log",
    benchmark:
        "results/benchmarks/typical_attention/{checkpoint}.tsv"
    conda:
        "../../envs/lensproof.yaml"
    threads: settings.threads
    resources:
        gpu=GPU,
    params:
        code=code_hash("calibrate"),
        text=f"--count {settings.calibration.sequences}",
        machine=MACHINE,
    shell:
        "lensproof --log {log} calibrate --checkpoint results/checkpoints/{wildcards.checkpoint} "
        "--sequences {input.sequences} {params.text} {params.machine} --threads {threads} --out {output}"


use rule typical_attention as typical_attention_of_length with:
    input:
        checkpoint="results/checkpoints/{checkpoint}/checkpoint.json",
        sequences="results/sequences/{checkpoint}/{corpus}/{length}.parquet",
    output:
        "results/artifacts/{checkpoint}/{corpus}/typical_attention_{length}.safetensors",
    log:
        "results/logs/typical_attention/{checkpoint}/{corpus}_{length}.log",
    benchmark:
        "results/benchmarks/typical_attention/{checkpoint}/{corpus}_{length}.tsv"
    params:
        code=code_hash("calibrate"),
        text=lambda wildcards: f"--count {settings.calibration_sequences(int(wildcards.length))}",
        machine=MACHINE,


use rule typical_attention as typical_attention_of_part with:
    output:
        "results/artifacts/{checkpoint}/calibrations/typical_{part}.safetensors",
    log:
        "results/logs/typical_attention/{checkpoint}/part_{part}.log",
    benchmark:
        "results/benchmarks/typical_attention/{checkpoint}/part_{part}.tsv"
    params:
        code=code_hash("calibrate"),
        text=lambda wildcards: f"--count {settings.calibration.sequences} --part {wildcards.part}",
        machine=MACHINE,


rule jacobian_lens_shard:
    """The Jacobian lens of a few prompts."""
    input:
        checkpoint="results/checkpoints/{checkpoint}/checkpoint.json",
        sequences=f"results/sequences/{{checkpoint}}/{settings.corpus}.parquet",
    output:
        "results/artifacts/{checkpoint}/jacobian_lens/shard_{shard}.safetensors",
    log:
        "results/logs/jacobian_lens/{checkpoint}/{shard}.log",
    benchmark:
        "results/benchmarks/jacobian_lens/{checkpoint}/{shard}.tsv"
    conda:
        "../../envs/lensproof.yaml"
    threads: settings.threads
    resources:
        gpu=GPU,
    params:
        code=code_hash("fit_jacobian"),
        share=lambda wildcards: share(wildcards.shard, LENS.prompts, LENS.shard),
        skip=LENS.skip,
        cotangents=LENS.cotangents,
        machine=MACHINE,
    shell:
        "lensproof --log {log} fit-jacobian --checkpoint results/checkpoints/{wildcards.checkpoint} "
        "--sequences {input.sequences} {params.share} --skip {params.skip} --cotangents {params.cotangents} "
        "{params.machine} --threads {threads} --out {output}"


rule jacobian_lens:
    """The Jacobian lens of a checkpoint, from its shards."""
    input:
        collect(
            "results/artifacts/{{checkpoint}}/jacobian_lens/shard_{shard}.safetensors",
            shard=shards(LENS.prompts, LENS.shard),
        ),
    output:
        "results/artifacts/{checkpoint}/jacobian_lens.safetensors",
    log:
        "results/logs/jacobian_lens/{checkpoint}.log",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("merge_jacobian"),
    shell:
        "lensproof --log {log} merge-jacobian {input} --out {output}"


rule ridge_probe:
    """The ridge probe of every layer, for the labels that directions are tested on."""
    input:
        checkpoint="results/checkpoints/{checkpoint}/checkpoint.json",
        sequences=f"results/sequences/{{checkpoint}}/{settings.corpus}.parquet",
    output:
        "results/artifacts/{checkpoint}/ridge_probe.safetensors",
    log:
        "results/logs/ridge_probe/{checkpoint}.log",
    benchmark:
        "results/benchmarks/ridge_probe/{checkpoint}.tsv"
    conda:
        "../../envs/lensproof.yaml"
    threads: settings.threads
    resources:
        gpu=GPU,
    params:
        code=code_hash("fit_probe"),
        number=settings.calibration.sequences,
        labels=settings.experiments.directions.labels,
        device=settings.device,
    shell:
        "lensproof --log {log} fit-probe --checkpoint results/checkpoints/{wildcards.checkpoint} "
        "--sequences {input.sequences} --count {params.number} --labels {params.labels} --device {params.device} "
        "--precision float32 --threads {threads} --out {output}"


rule tuned_lens_group:
    """The tuned lens of a few layers."""
    input:
        checkpoint="results/checkpoints/{checkpoint}/checkpoint.json",
        sequences=f"results/sequences/{{checkpoint}}/{TRANSLATORS.corpus}.parquet",
    output:
        "results/artifacts/{checkpoint}/tuned_lens/group_{shard}.safetensors",
    log:
        "results/logs/tuned_lens/{checkpoint}/{shard}.log",
    benchmark:
        "results/benchmarks/tuned_lens/{checkpoint}/{shard}.tsv"
    conda:
        "../../envs/lensproof.yaml"
    threads: settings.threads
    resources:
        gpu=GPU,
    params:
        code=code_hash("fit_tuned"),
        layers=lambda wildcards: ",".join(map(str, translator_groups(wildcards.checkpoint)[int(wildcards.shard)])),
        tokens=lambda wildcards: TRANSLATORS.budget(wildcards.checkpoint),
        training=f"--batch {TRANSLATORS.batch} --rate {TRANSLATORS.rate} --epochs {TRANSLATORS.epochs}",
        seed=settings.seed,
        machine=f"--device {settings.device} --precision float32",
    shell:
        "lensproof --log {log} fit-tuned --checkpoint results/checkpoints/{wildcards.checkpoint} "
        "--sequences {input.sequences} --layers {params.layers} --tokens {params.tokens} {params.training} "
        "--seed {params.seed} {params.machine} --threads {threads} --out {output}"


rule tuned_lens:
    """The tuned lens of a checkpoint, from its groups of layers."""
    input:
        lambda wildcards: collect(
            "results/artifacts/{{checkpoint}}/tuned_lens/group_{shard}.safetensors",
            shard=shards(len(translator_groups(wildcards.checkpoint)), 1),
        ),
    output:
        "results/artifacts/{checkpoint}/tuned_lens.safetensors",
    log:
        "results/logs/tuned_lens/{checkpoint}.log",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("merge_tuned"),
    shell:
        "lensproof --log {log} merge-tuned {input} --out {output}"
