# lensproof: every claim, table and figure of the papers is a file that this workflow rebuilds.
from snakemake.utils import min_version

min_version("9.27")


configfile: "config.yaml"


report: "workflow/report/workflow.rst"


# What a module of the library does, its rules do with files; in the order data flows.
include: "workflow/rules/common.smk"
include: "workflow/rules/inputs.smk"
include: "workflow/rules/checkpoints.smk"
include: "workflow/rules/corpora.smk"
include: "workflow/rules/lenses.smk"
include: "workflow/rules/readings.smk"
include: "workflow/rules/observations.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/lineage.smk"


rule all:
    default_target: True
    input:
        rules.lexframe.input,
        rules.claims.input,
        rules.targets.output,


onstart:
    begin()


onsuccess:
    print(summary())
