# What is fitted once for each checkpoint: typical attention and the Jacobian lens.


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
        number=settings.calibration.sequences,
        machine=MACHINE,
    shell:
        "lensproof --log {log} calibrate --checkpoint results/checkpoints/{wildcards.checkpoint} "
        "--sequences {input.sequences} --count {params.number} {params.machine} --threads {threads} --out {output}"


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
