# From estimates to verdicts. Each claim is a target: `snakemake --cores 2 claim_<id>`.

CLAIMS = catalogue.inputs()
TIED = " ".join(
    f"--{'tied' if settings.registry.checkpoints[name].tied else 'untied'} {name}" for name in settings.checkpoints
)


# Claims that need the same estimates are judged by one job: starting one takes longer than judging.
for experiments, judged in catalogue.alike(CLAIMS).items():
    kind = "_".join(experiment.split("/")[1] for experiment in experiments)

    rule:
        name:
            f"judge_{kind}"
        input:
            # The claims' own first, then those that their rules and guards need.
            estimates=expand(
                "results/estimates/{experiment}/{checkpoint}.parquet",
                experiment=experiments,
                checkpoint=settings.checkpoints,
            ),
            claims="paper/published/claims.yaml",
            published="paper/published/lexframe.yaml",
        output:
            expand("results/claims/{claim}.json", claim=judged),
        log:
            f"results/logs/claims/{kind}.log",
        conda:
            "../../envs/lensproof.yaml"
        params:
            code=code_hash("judge"),
            claims=",".join(judged),
            level=settings.level,
            tied=TIED,
        shell:
            "lensproof --log {log} judge {params.claims} {input.estimates} --level {params.level} {params.tied} "
            "--into results/claims"


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
