# Experiments on benchmark records (Gathered): states at the query position, trials, estimates. What an experiment reads:
# lensproof/experiments/catalogue.py.

GATHERED = settings.gathered


rule records_without_cue:
    """A family's own records, the answer cue left out."""
    input:
        "results/records/{checkpoint}/{family}.jsonl",
    output:
        "results/records/{checkpoint}/{family}_no_cue.jsonl",
    log:
        "results/logs/records/{checkpoint}/{family}_no_cue.log",
    wildcard_constraints:
        family="language|tracking",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("records"),
    shell:
        "lensproof --log {log} records without-cue {input} --out {output}"


rule query_states:
    """Every layer's state at the query position, for some instances of a record set."""
    input:
        checkpoint="results/checkpoints/{checkpoint}/checkpoint.json",
        records="results/records/{checkpoint}/{records}.jsonl",
    output:
        "results/artifacts/{checkpoint}/query_states/{records}/shard_{shard}.safetensors",
    log:
        "results/logs/query_states/{checkpoint}/{records}_{shard}.log",
    benchmark:
        "results/benchmarks/query_states/{checkpoint}/{records}_{shard}.tsv"
    conda:
        "../../envs/lensproof.yaml"
    threads: settings.threads
    resources:
        gpu=GPU,
    params:
        code=code_hash("query_states"),
        arms=lambda wildcards: ",".join(arms_of(wildcards.records)),
        share=lambda wildcards: share(wildcards.shard, instances(wildcards.records), GATHERED.shard),
        machine=MACHINE,
    shell:
        "lensproof --log {log} query-states --checkpoint results/checkpoints/{wildcards.checkpoint} "
        "--records {input.records} --arms {params.arms} {params.share} {params.machine} --threads {threads} "
        "--out {output}"


rule gathered_observations:
    """One experiment on the states of a record set: a row per trial."""
    input:
        unpack(fitted),
        checkpoint="results/checkpoints/{checkpoint}/checkpoint.json",
        records="results/records/{checkpoint}/{records}.jsonl",
        states=states,
    output:
        "results/observations/gathered/{experiment}/{checkpoint}/{records}/shard_{shard}.parquet",
    log:
        "results/logs/gathered/{experiment}/{checkpoint}/{records}_{shard}.log",
    benchmark:
        "results/benchmarks/gathered/{experiment}/{checkpoint}/{records}_{shard}.tsv"
    wildcard_constraints:
        experiment="|".join(ON_RECORDS),
    conda:
        "../../envs/lensproof.yaml"
    threads: settings.threads
    resources:
        gpu=GPU,
    params:
        code=lambda wildcards: code_hash("observe_arms", f"lensproof.experiments.{wildcards.experiment}"),
        states=lambda wildcards: " ".join(f"--states {file}" for file in states(wildcards)),
        inputs=lambda wildcards: as_flags(fitted(wildcards)),
        options=lambda wildcards: getattr(GATHERED.experiments, wildcards.experiment).model_dump_json(),
        seed=settings.seed,
        machine=MACHINE,
    shell:
        "lensproof --log {log} observe-arms {wildcards.experiment} "
        "--checkpoint results/checkpoints/{wildcards.checkpoint} --records {input.records} {params.states} "
        "--set {wildcards.records} {params.inputs} --options {params.options:q} --seed {params.seed} {params.machine} "
        "--threads {threads} --out {output}"


rule gathered_estimates:
    """An experiment's estimates for one checkpoint, with intervals over passages or instances."""
    input:
        lambda wildcards: gathered_observed(wildcards.experiment, wildcards.checkpoint),
    output:
        "results/estimates/gathered/{experiment}/{checkpoint}.parquet",
    log:
        "results/logs/gathered/{experiment}/{checkpoint}.log",
    benchmark:
        "results/benchmarks/gathered/estimates/{experiment}/{checkpoint}.tsv"
    wildcard_constraints:
        experiment="|".join(ON_RECORDS),
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=lambda wildcards: code_hash("estimate", f"lensproof.statistics.{wildcards.experiment}"),
        preset=settings.preset,  # recorded with them, and verdicts of several presets are not compared
        resamples=GATHERED.resamples,
        level=settings.bootstrap.level,
        seed=settings.seed,
    shell:
        "lensproof --log {log} estimate {wildcards.experiment} {input} --resamples {params.resamples} "
        "--level {params.level} --seed {params.seed} --out {output}"
