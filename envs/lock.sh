#!/bin/sh
# Writes envs/requirements.lock from envs/requirements.in, and the peers' lock from theirs: one set of versions for Python
# 3.11 to 3.13 on every platform, with the hashes of all their files. torch and what only torch requires stay out, see
# envs/torch.txt.
set -eu

tool=.make/uv
[ -x "$tool/bin/uv" ] || { "${PYTHON:-python3}" -m venv "$tool" && "$tool/bin/python" -m pip install --quiet 'uv>=0.9.8'; }
compile() {
    # shellcheck disable=SC2086  # the second argument is options
    "$tool/bin/uv" pip compile "$1.in" --output-file "$1.lock" --upgrade \
        --universal --python-version 3.11 --fork-strategy fewest --excludes envs/torch.txt \
        --generate-hashes --custom-compile-command 'make lock' --quiet $2
    echo "make: $1.lock is written" >&2
}
compile envs/requirements ''
compile envs/peers/requirements '--constraint envs/requirements.lock'
