# From the registry to parallel passages, and from passages to records of the five-arm benchmark.


rule passages:
    """Parallel passages, held back continuation and all."""
    input:
        lambda wildcards: passage_files(wildcards.passages),
    output:
        "results/passages/{passages}.json",
    log:
        "results/logs/passages/{passages}.log",
    wildcard_constraints:
        passages=r"[A-Za-z0-9][A-Za-z0-9._-]*",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("records"),
        spec=lambda wildcards: spec("passages", wildcards.passages),
    shell:
        "lensproof --log {log} records passages {wildcards.passages} --spec {params.spec:q} --out {output}"


rule records:
    """Records of one set for the tokenizer of a checkpoint."""
    input:
        checkpoint="results/checkpoints/{checkpoint}/checkpoint.json",
        passages=lambda wildcards: passages_of(wildcards.checkpoint),
    output:
        "results/records/{checkpoint}/{records}.jsonl",
    log:
        "results/logs/records/{checkpoint}/{records}.log",
    wildcard_constraints:
        records="|".join(BENCHMARK.sets),
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("records"),
        number=BENCHMARK.instances,
        seed=BENCHMARK.seed,
        source=lambda wildcards, input: (
            f"--passages {input.passages} --languages {','.join(BENCHMARK.languages)}" if input.passages else ""
        ),
    shell:
        "lensproof --log {log} records build {wildcards.records} --checkpoint results/checkpoints/{wildcards.checkpoint} "
        "{params.source} --count {params.number} --seed {params.seed} --out {output}"
