"""The default preset's results of this version, as they were when it was released (``tests/reference``)."""

from __future__ import annotations

import pandas as pd
import pytest

from lensproof.files import provenance_path, read_json

REFERENCE = "tests/reference"


@pytest.fixture
def results(root):
    """The results of a finished run of the default preset."""
    folder = root / "results"
    table = folder / "tables/lexframe/table1.csv"
    assert table.is_file(), "run `make reproduce` first"
    assert read_json(provenance_path(table))["preset"] == "desk", "run `make reproduce` with the default preset first"
    return folder


@pytest.mark.slow
def test_estimates_agree_with_the_reference(root, results):
    """Another processor's rounding moves a mean by far less than a thousandth of its interval's width."""
    key = ["checkpoint", "method", "measure"]
    ours, theirs = (
        pd.read_csv(path).set_index(key).sort_index()
        for path in (results / "tables/lexframe/table1.csv", root / REFERENCE / "table1.csv")
    )
    assert ours.index.equals(theirs.index)
    pd.testing.assert_frame_equal(ours[["point", "lo", "hi"]], theirs[["point", "lo", "hi"]], rtol=2e-3, atol=1e-4)
    assert (ours["n"] == theirs["n"]).all()


@pytest.mark.slow
def test_verdicts_agree_with_the_reference(root, results):
    ours, theirs = (
        pd.read_csv(path).set_index(["claim", "checkpoint"])["verdict"].sort_index()
        for path in (results / "claims.csv", root / REFERENCE / "claims.csv")
    )
    pd.testing.assert_series_equal(ours, theirs)


def test_the_reference_covers_every_claim(root):
    from lensproof.claims import catalogue

    assert set(pd.read_csv(root / REFERENCE / "claims.csv")["claim"]) == set(catalogue.experiments())


QUOTED = ("lexframe_order1_halves_order0_kl", "lexframe_order1_top1", "lexframe_reading_predicts_substitution")


@pytest.mark.parametrize("claim", QUOTED)
def test_the_readme_quotes_the_reference(root, claim):
    readme, claims = (root / "README.md").read_text(), pd.read_csv(root / REFERENCE / "claims.csv")
    for row in claims[claims["claim"] == claim].itertuples():
        assert f"{row.verdict}, {row.estimate:.3f} [{row.lo:.3f}, {row.hi:.3f}]" in readme
    contradicted = set(claims[(claims["paper"] == "lexframe") & (claims["verdict"] == "contradicted")]["claim"])
    assert readme.count("**contradicted**") == len(contradicted)


def test_the_readme_counts_the_reference_s_verdicts(root):
    readme, claims = (root / "README.md").read_text(), pd.read_csv(root / REFERENCE / "claims.csv")
    claims = claims[claims["paper"] == "lexframe"]
    of = {name: rows["verdict"].value_counts() for name, rows in claims.groupby("checkpoint")}
    smol, gemma = (of[name]["reproduced"] for name in ("smollm2-135m", "gemma3-270m"))
    counted = f"of {claims['claim'].nunique()} claims {smol} are reproduced on SmolLM2 and {gemma} on Gemma"
    assert counted in " ".join(readme.split())


SHOWN = {
    "gathered_entry_flexible_minus_control": "flexible more visible than control",
    "gathered_latent_demand_flexible_minus_supplied": "flexible more visible than supplied",
    "gathered_entry_report_minus_control": "report more visible than control",
    "gathered_two_by_two_interaction": "inferring and applying together",
    "gathered_automatic_vs_control_small": "automatic close to control",
    "gathered_probe_all_arms_above_floor": "one map decodes the variable in every arm",
    "gathered_answer_cue_lifts_visibility": "the answer cue alone",
    "gathered_rz_saturates": "R_z saturates",
}
"""Claim -> how the README's table of Gathered's verdicts begins to name it."""
COLUMNS = ("planted-gather", "planted-gate", "smollm2-135m-five-arm", "gemma3-270m-five-arm")


@pytest.mark.parametrize("claim", SHOWN)
def test_the_readme_s_table_of_gathered_is_the_reference_s(root, claim):
    readme, claims = (root / "README.md").read_text(), pd.read_csv(root / REFERENCE / "claims.csv")
    rows = claims[claims["claim"] == claim].set_index("checkpoint")
    (line,) = [line for line in readme.splitlines() if line.startswith(f"| {SHOWN[claim]}")]
    for shown, name in zip(line.split(" | ")[1:5], COLUMNS, strict=True):
        row = rows.loc[name]
        if row.verdict == "not testable":
            assert shown.startswith(("not asked", "not testable"))
        else:
            interval = ", interval not defined" if pd.isna(row.lo) else f" [{row.lo:.3f}, {row.hi:.3f}]"
            assert shown == f"{row.verdict}, {row.estimate:.3f}{interval}"


def test_the_readme_holds_the_recorded_table_of_targets(root):
    """Times, memory and verdicts there are those of the run that the reference was recorded from, not typed."""
    assert (root / REFERENCE / "targets.md").read_text() in (root / "README.md").read_text()
