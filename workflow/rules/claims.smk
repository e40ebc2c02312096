# From estimates to verdicts. Each claim is a target: `snakemake --cores 2 claim_<id>`.

CLAIMS = catalogue.inputs()


def paper_of(claim):
    """The paper that makes a claim."""
    return CLAIMS[claim][0].partition("/")[0]


def facts(claim):
    """What a verdict must know of each checkpoint that a claim is judged on, as flags."""
    names = CHECKPOINTS[paper_of(claim)]
    tied = {name: settings.registry.checkpoints[name].tied for name in names}
    flags = [f"--{'tied' if tied[name] else 'untied'} {name}" for name in names]
    return " ".join(flags + [f"--planted {name}" for name in names if settings.planted(name)])


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
