#!/bin/sh
# Makes .venv hold what envs/torch.txt and envs/requirements.lock name, and the package of this folder. Called by make,
# in the project's folder; [PYTHON=interpreter] sh envs/setup.sh does the same by hand.
#
# Does nothing where .venv holds just that already. Otherwise makes it anew: what an interrupted pip left, a folder
# that was moved (scripts and the package's path are absolute) or an interpreter that is gone cannot be mended in place.
set -eu

venv=.venv
stamp=$venv/lensproof-setup # empty from the start of a set-up, written when it is complete
python=$venv/bin/python

unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_ROOT
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { printf 'make: %s\n' "$*" >&2; }
fail() { say "$*" && exit 1; }

# What .venv must have been made from: contents, place and Python version, never file times.
requirements() {
    {
        "$python" -c 'import sys; print(sys.version_info[:2])' && pwd -P && cat envs/torch.txt envs/requirements.lock
    } 2>/dev/null | cksum
}
package() { cksum pyproject.toml workflow/lensproof/__init__.py; }

is_complete() { [ "$(cat "$stamp" 2>/dev/null)" = "$(requirements && package)" ]; }
has_requirements() { [ -s "$stamp" ] && [ "$(sed 1q "$stamp")" = "$(requirements)" ]; }

# Interpreters are tried by running them: a shim of a version manager has the name and may still fail.
find_python() {
    without_venv=
    for candidate in "$@"; do
        "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || continue
        "$candidate" -c 'import ensurepip, venv' 2>/dev/null && printf '%s\n' "$candidate" && return
        without_venv=$candidate
    done
    [ -z "$without_venv" ] || fail "$without_venv cannot make virtual environments: install its venv module" \
        "(on Debian or Ubuntu: apt install python3-venv) and run make again"
    fail "none of $* is a Python of version 3.11, 3.12 or 3.13: install one, or name it: make PYTHON=/path/to/python3"
}

make_venv() {
    if [ -n "${PYTHON:-}" ]; then base=$(find_python "$PYTHON"); else
        base=$(find_python python3 python3.13 python3.12 python3.11)
    fi
    if [ -d "$venv" ] && [ ! -L "$venv" ]; then
        [ -e "$stamp" ] || fail "$venv was not made by make: move it away, and run make again"
        mv "$venv" "$venv.old.$$"
    fi
    rm -rf "$venv" "$venv".old.*
    mkdir "$venv"
    : >"$stamp"
    say "setting up $venv with $("$base" --version) (once; a few minutes)"
    "$base" -m venv "$venv" || fail "$base -m venv failed, see above"
}

install() {
    "$python" -m pip install "$@" || fail "an installation failed, see above: mend that (network? disk?), run make again"
}

# One set-up at a time: a second make waits.
mkdir -p .make
is_complete && exit
if command -v flock >/dev/null; then
    exec 9>.make/setup.lock
    flock -n 9 || { say "another make is setting up $venv: waiting for it" && flock 9; }
    is_complete && exit
fi

if ! has_requirements; then
    make_venv
    install --requirement envs/torch.txt
    install --require-hashes --no-deps --requirement envs/requirements.lock
fi
install --quiet --no-deps --no-build-isolation --editable .
"$python" -m pip check || fail "$venv does not fit together, see above: run make lock, or restore envs/requirements.lock"
written=$(requirements && package)
printf '%s\n' "$written" >"$stamp"
say "$venv is ready"
