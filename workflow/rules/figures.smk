# From estimates to figures and tables; nothing is computed here. Each one is a target: `lexframe_fig4`, `lexframe_table1`.
# What each is made from: lensproof/figures/catalogue.py.


# What checkpoints are called in print.
PRINTED = {
    *settings.checkpoints,
    *(name for series in settings.experiments.training.series.values() for name in series),
}
TITLES = " ".join(
    f"--title {shlex.quote(f'{name}={settings.registry.checkpoints[name].title}')}" for name in sorted(PRINTED)
)

for name, experiments in FIGURES.items():

    rule:
        name:
            f"lexframe_{name}"
        input:
            shown(experiments),
        output:
            pdf=f"results/figures/lexframe/{name}.pdf",
            svg=report(
                f"results/figures/lexframe/{name}.svg",
                caption="../report/item.rst",
                category="Lexical Reference Frames",
                labels={"item": figures.title(name), "kind": "figure"},
            ),
            png=f"results/figures/lexframe/{name}.png",
            caption=f"results/figures/lexframe/{name}.md",
        log:
            f"results/logs/figures/lexframe/{name}.log",
        conda:
            "../../envs/lensproof.yaml"
        params:
            code=code_hash("figure", f"lensproof.figures.lexframe_{name}"),
            name=name,
            titles=TITLES,
        shell:
            "lensproof --log {log} figure lexframe {params.name} {input} {params.titles} --out {output.pdf}"


for name, experiments in TABLES.items():

    rule:
        name:
            f"lexframe_{name}"
        input:
            shown(experiments),
            published=expand("paper/published/{file}.yaml", file=["lexframe", *figures.ALSO.get(name, ())]),
        output:
            csv=report(
                f"results/tables/lexframe/{name}.csv",
                caption="../report/item.rst",
                category="Lexical Reference Frames",
                labels={"item": figures.title(name), "kind": "table"},
            ),
            md=f"results/tables/lexframe/{name}.md",
            tex=f"results/tables/lexframe/{name}.tex",
        log:
            f"results/logs/tables/lexframe/{name}.log",
        conda:
            "../../envs/lensproof.yaml"
        params:
            code=code_hash("table", f"lensproof.figures.lexframe_{name}"),
            name=name,
            estimates=shown(experiments),
            titles=TITLES,
        shell:
            "lensproof --log {log} table lexframe {params.name} {params.estimates} {params.titles} --out {output.csv}"


rule lexframe:
    """Every table and figure of Lexical Reference Frames."""
    input:
        expand("results/figures/lexframe/{name}.{form}", name=FIGURES, form=["pdf", "svg", "png", "md"]),
        expand("results/tables/lexframe/{name}.{form}", name=TABLES, form=["csv", "md", "tex"]),
    localrule: True


rule targets:
    """What every figure and table cost in this run, and the verdicts of its claims."""
    input:
        rules.lexframe.input,
        claims="results/claims.csv",
    output:
        csv="results/tables/lexframe/targets.csv",
        md="results/tables/lexframe/targets.md",
    log:
        "results/logs/tables/lexframe/targets.log",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("targets"),
        # Times of steps that only another configuration has may lie there too.
        timed=lambda wildcards: " ".join(
            f"--timed {file}" for file in sorted(set().union(*map(timed, map(str, rules.lexframe.input))))
        ),
        titles=TITLES,
    shell:
        "lensproof --log {log} targets {input.claims} {params.timed} {params.titles} --out {output.csv}"
