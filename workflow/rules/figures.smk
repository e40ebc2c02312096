# From estimates to figures and tables; nothing is computed here. Each one is a target: `lexframe_fig4`.
READINGS_ESTIMATES = collect(
    "results/estimates/lexframe/readings/{checkpoint}.parquet", checkpoint=settings.checkpoints
)
# What checkpoints are called in print.
TITLES = " ".join(
    f"--title {shlex.quote(f'{name}={settings.registry.checkpoints[name].title}')}" for name in settings.checkpoints
)


rule lexframe_table1:
    """Readings against the model's output, mean over layers."""
    input:
        READINGS_ESTIMATES,
    output:
        csv=report(
            "results/tables/lexframe/table1.csv",
            caption="../report/lexframe_table1.rst",
            category="Lexical Reference Frames",
            labels={"item": "Table 1", "kind": "table"},
        ),
        md="results/tables/lexframe/table1.md",
        tex="results/tables/lexframe/table1.tex",
    log:
        "results/logs/tables/lexframe/table1.log",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("table", "lensproof.figures.lexframe_table1"),
        titles=TITLES,
    shell:
        "lensproof --log {log} table lexframe table1 {input} {params.titles} --out {output.csv}"


rule lexframe_fig4:
    """Divergence of each reading from the model's output, by layer."""
    input:
        READINGS_ESTIMATES,
    output:
        pdf="results/figures/lexframe/fig4.pdf",
        svg=report(
            "results/figures/lexframe/fig4.svg",
            caption="../report/lexframe_fig4.rst",
            category="Lexical Reference Frames",
            labels={"item": "Figure 4", "kind": "figure"},
        ),
        png="results/figures/lexframe/fig4.png",
    log:
        "results/logs/figures/lexframe/fig4.log",
    conda:
        "../../envs/lensproof.yaml"
    params:
        code=code_hash("figure"),
        titles=TITLES,
    shell:
        "lensproof --log {log} figure lexframe fig4 {input} {params.titles} --out {output.pdf}"


rule lexframe:
    """Every table and figure of Lexical Reference Frames that there is."""
    input:
        rules.lexframe_table1.output,
        rules.lexframe_fig4.output,
    localrule: True
