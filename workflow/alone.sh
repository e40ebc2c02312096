#!/bin/sh
# sh workflow/alone.sh ARGUMENT...: runs Snakemake, in the project's folder, when no other run is at work there, going on
# where a killed one stopped. Called by make.
set -eu

say() { printf 'make: %s\n' "$*" >&2; }

# Ids of the processes for which "$1" holds, called with the process's folder in /proc.
processes() {
    found=
    for process in /proc/[0-9]*; do
        if "$1" "$process" 2>/dev/null; then found="$found${found:+ }${process#/proc/}"; fi
    done
    printf '%s' "$found"
}
# shellcheck disable=SC3013  # every sh in use knows -ef: the same file
holds_lock() { [ "$1/fd/0" -ef .make/run.lock ] && ! grep -q 'workflow/alone\.sh' "$1/cmdline"; }
# shellcheck disable=SC3013
is_snakemake() { [ "$1/cwd" -ef . ] && tr '\0' '\n' <"$1/cmdline" | grep -qE '^snakemake$|bin/snakemake$'; }

# The lock is held through standard input because that is what jobs inherit: those of a killed Snakemake live on, and
# the next run must not compute beside them. Nothing here reads its input.
mkdir -p .make
exec 0<>.make/run.lock
if command -v flock >/dev/null && ! flock -n 0; then
    say "another run, or jobs that a killed one left, are at work in this folder" \
        "(process $(processes holds_lock)): waiting for them"
    flock 0
fi

# Snakemake's own lock outlives a killed run. A Snakemake that was started by hand holds the same one.
if ls .snakemake/locks/*.lock >/dev/null 2>&1; then
    others=$(processes is_snakemake)
    if [ -n "$others" ]; then
        say "a Snakemake (process $others) is at work in this folder: wait for it or stop it, then run make again"
        exit 1
    fi
    say "the last run was killed: going on where it stopped"
    .venv/bin/python -m snakemake --quiet all --unlock "$@"
fi

PATH=$PWD/.venv/bin:$PATH exec .venv/bin/python -m snakemake --workflow-profile workflow/profiles/default "$@"
