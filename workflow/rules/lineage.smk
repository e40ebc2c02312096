# What a file rests on. Included last: it goes over all rules.
#
# Snakemake compares what a step itself is told with what it was told when it made its files, and asks for no file that
# only an intermediate step needs. A run with other settings that is stopped half way removes such files and leaves what
# was made from them; nothing that is then asked for would be found out of date. So every step is also told, in short,
# what all the steps before it are told. In the same way it is found which steps' times are those of this run.
from functools import cache
from hashlib import sha256


@cache
def maker(file):
    """The rule that makes a file; None where the file is a source."""
    return next((made_by for made_by in workflow.rules if made_by.is_producer(file)), None)


@cache
def told(file):
    """All that the step which makes a file is told, what it rests on included."""
    if not (by := maker(file)):
        return ()
    wildcards = by.get_wildcards(file)
    files = by.expand_input(wildcards)[0], by.expand_output(wildcards)[0]
    return tuple(map(str, by.expand_params(wildcards, *files, job=None)[1]))


@cache
def timed(file):
    """The benchmark files of all steps that a file rests on."""
    if not (by := maker(file)):
        return frozenset()
    wildcards = by.get_wildcards(file)
    own = {str(by.expand_benchmark(wildcards))} if by.benchmark else set()
    return frozenset(own.union(*(timed(str(before)) for before in by.expand_input(wildcards)[0])))


def lineage(of):
    """The function that gives a rule's steps the digest of what the steps before them are told."""

    def rests_on(wildcards):
        before = {str(file): told(str(file)) for file in of.expand_input(dict(wildcards.items()))[0]}
        return sha256(json.dumps(before, sort_keys=True).encode()).hexdigest()[:16]

    return rests_on


for step in [step for step in workflow.rules if step.output]:
    step.set_params(rests_on=lineage(step))
