# From estimates to figures and tables; nothing is computed here. Each one is a target: `lexframe_fig4`, `gathered_entry`.
# What each is made from: lensproof/figures/catalogue.py.


# What checkpoints are called in print.
PRINTED = {
    *settings.checkpoints,
    *settings.gathered.checkpoints,
    *(name for series in settings.experiments.training.series.values() for name in series),
}
TITLES = " ".join(
    f"--title {shlex.quote(f'{name}={settings.registry.checkpoints[name].title}')}" for name in sorted(PRINTED)
)

for paper, name, experiments in listed(FIGURES):

    rule:
        name:
            f"{paper}_{name}"
        input:
            shown(paper, experiments),
        output:
            pdf=f"results/figures/{paper}/{name}.pdf",
            svg=report(
                f"results/figures/{paper}/{name}.svg",
                caption="../report/item.rst",
                category=PAPERS[paper],
                labels={"item": figures.title(name), "kind": "figure"},
            ),
            png=f"results/figures/{paper}/{name}.png",
            caption=f"results/figures/{paper}/{name}.md",
        log:
            f"results/logs/figures/{paper}/{name}.log",
        conda:
            "../../envs/lensproof.yaml"
        params:
            code=code_hash("figure", f"lensproof.figures.{paper}_{name}"),
            paper=paper,
            name=name,
            titles=TITLES,
        shell:
            "lensproof --log {log} figure {params.paper} {params.name} {input} {params.titles} --out {output.pdf}"


for paper, name, experiments in listed(TABLES):

    rule:
        name:
            f"{paper}_{name}"
        input:
            shown(paper, experiments),
            published=expand("paper/published/{file}.yaml", file=[paper, *figures.ALSO[paper].get(name, ())]),
        output:
            csv=report(
                f"results/tables/{paper}/{name}.csv",
                caption="../report/item.rst",
                category=PAPERS[paper],
                labels={"item": figures.title(name), "kind": "table"},
            ),
            md=f"results/tables/{paper}/{name}.md",
            tex=f"results/tables/{paper}/{name}.tex",
        log:
            f"results/logs/tables/{paper}/{name}.log",
        conda:
            "../../envs/lensproof.yaml"
        params:
            code=code_hash("table", f"lensproof.figures.{paper}_{name}"),
            item=f"{paper} {name}",
            estimates=shown(paper, experiments),
            titles=TITLES,
        shell:
            "lensproof --log {log} table {params.item} {params.estimates} {params.titles} --out {output.csv}"


rule lexframe:
    """Every table and figure of Lexical Reference Frames."""
    input:
        drawn("lexframe"),
    localrule: True


rule gathered:
    """Every table and figure of Gathered, Not Admitted."""
    input:
        drawn("gathered"),
    localrule: True


rule targets:
    """What every figure and table of a paper cost in this run, and the verdicts of its claims."""
    input:
        lambda wildcards: drawn(wildcards.paper),
        claims="results/claims.csv",
    output:
        csv="results/tables/{paper}/targets.csv",
        md="results/tables/{paper}/targets.md",
    log:
        "results/logs/tables/{paper}/targets.log",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("targets"),
        # Times of steps that only another configuration has may lie there too.
        timed=lambda wildcards: " ".join(
            f"--timed {file}" for file in sorted(set().union(*map(timed, drawn(wildcards.paper))))
        ),
        titles=TITLES,
    shell:
        "lensproof --log {log} targets {wildcards.paper} {input.claims} {params.timed} {params.titles} --out {output.csv}"
