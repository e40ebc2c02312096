# From estimates to verdicts. Each claim is a target: `snakemake --cores 2 claim_<id>`.


rule judge:
    """The verdict on one claim, with all that it rests on."""
    input:
        estimates=lambda wildcards: collect(
            "results/estimates/{experiment}/{checkpoint}.parquet",
            experiment=CLAIMS[wildcards.claim],  # the claim's own first, then those that its guards need
            checkpoint=CHECKPOINTS[paper_of(wildcards.claim)],
        ),
        claims="paper/published/claims.yaml",
        published=lambda wildcards: f"paper/published/{paper_of(wildcards.claim)}.yaml",
    output:
        "results/claims/{claim}.json",
    log:
        "results/logs/claims/{claim}.log",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("judge"),
        level=settings.level,
        facts=lambda wildcards: facts(wildcards.claim),
    shell:
        "lensproof --log {log} judge {wildcards.claim} {input.estimates} --level {params.level} {params.facts} --out {output}"


rule collect_claims:
    """All verdicts in one table."""
    input:
        collect("results/claims/{claim}.json", claim=CLAIMS),
    output:
        "results/claims.csv",
    log:
        "results/logs/claims.log",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("collect_claims"),
        level=settings.level,
    shell:
        "lensproof --log {log} collect-claims {input} --level {params.level} --out {output}"


for claim in CLAIMS:

    rule:
        name:
            f"claim_{claim}"
        input:
            f"results/claims/{claim}.json",
        localrule: True


rule claims:
    """Every verdict."""
    input:
        "results/claims.csv",
    localrule: True


rule verify:
    """Fail where a claim that should hold on this preset does not."""
    input:
        "results/claims.csv",
    log:
        "results/logs/verify.log",
    localrule: True
    conda:
        "../../envs/lensproof.yaml"
    shell:
        "lensproof --log {log} verify"
