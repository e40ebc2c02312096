"""Tables hold the estimates and nothing else, beside the paper's values, in CSV, Markdown and LaTeX."""

from __future__ import annotations

import importlib
import math
import re
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
import yaml
from claims_world import paper_rows, row
from docutils.core import publish_string
from jsonschema import Draft202012Validator

from lensproof.claims import catalogue
from lensproof.claims.evidence import Quantity
from lensproof.claims.models import claims
from lensproof.claims.verdicts import COLUMNS, evidence
from lensproof.errors import LensproofError
from lensproof.experiments import sensitivity as sensitivity_experiment
from lensproof.figures import catalogue as figures
from lensproof.figures import (
    lexframe_costs,
    lexframe_intervals,
    lexframe_open_points,
    lexframe_sensitivity,
    lexframe_table1,
    lexframe_table8,
    lexframe_table9,
    lexframe_text,
    lexframe_translators,
)
from lensproof.figures.names import MEASURES, SETTINGS, measure_title, method_title, setting_title, stated_title
from lensproof.figures.tables import EMPTY, NO_INTERVAL, NO_WIDTH, THEIRS, escape, interval
from lensproof.figures.tokens import visible
from lensproof.files import read_json, write_parquet
from lensproof.statistics import sensitivity
from lensproof.statistics.examples import estimate as estimate_examples
from lensproof.statistics.methods import FIXED, NATIVE
from lensproof.statistics.sensitivity import large

PUBLISHED = catalogue.load("lexframe")
PAPERS = ("table1", "table2", "table3", "table4", "table5", "table6", "table7", "table8")
TEXTS = [paper for paper, tables in figures.TABLES.items() if "text" in tables]
"""Papers whose statements are shown in words."""
OTHERS = ("table9", "translators", "intervals", "sensitivity", "open_points", "text", "costs")


def module(name):
    return importlib.import_module(f"lensproof.figures.lexframe_{name}")


@pytest.fixture(scope="module")
def papers_own() -> pd.DataFrame:
    """Estimates that are the paper's values, rounded as it prints them."""
    return pd.DataFrame([line for name in PUBLISHED["checkpoints"] for line in paper_rows(PUBLISHED, name, half=0.001)])


def frame(*rows) -> pd.DataFrame:
    return pd.DataFrame(list(rows))


def lines(markdown: str) -> list[str]:
    return [line for line in markdown.splitlines() if line.startswith("|")]


def stated(node) -> int:
    """Numbers that the paper states under a node, one for each of its checkpoints."""
    if isinstance(node, dict):
        return sum(map(stated, node.values()))
    return len(node) if isinstance(node, list) and all(isinstance(value, float) for value in node) else 0


# -- the paper's tables


@pytest.mark.parametrize("name", PAPERS)
def test_each_published_value_stands_beside_its_estimate(papers_own, name):
    """With the paper's own values as estimates, every one of them is found, and each once."""
    table = module(name).tidy(papers_own, PUBLISHED)
    beside = table[table["published"].notna()]
    elsewhere = 2 if name == "table1" else 0  # the model's own calibration stands with the text
    assert len(beside) == stated(PUBLISHED[name]) + elsewhere
    assert (beside["point"] - beside["published"]).abs().max() < 1e-12
    assert not beside.duplicated(["checkpoint", "method", "measure", "setting", "layer"]).any()


@pytest.mark.parametrize("name", PAPERS)
def test_ours_and_theirs_are_laid_out_alike(papers_own, name):
    """The two blocks name the same columns, and every row of theirs is a row of ours with the same numbers."""
    text = module(name).markdown(module(name).tidy(papers_own, PUBLISHED), PUBLISHED)
    ours, theirs = (lines(part) for part in text.split(THEIRS))
    assert ours[0] == theirs[0]
    assert len({line.count(" | ") for line in (*ours, *theirs)}) == 1
    rows = {line.split(" | ")[0]: line.split(" | ")[1:] for line in ours[2:]}
    for line in theirs[2:]:
        title, *cells = line.split(" | ")
        for mine, their in zip(rows[title], cells, strict=True):
            their = their.removesuffix(" |")
            assert their == "" or float(mine.split(" [")[0]) == float(their)


@pytest.mark.parametrize("name", PAPERS)
def test_latex_has_the_same_cells(papers_own, name):
    table = module(name).tidy(papers_own, PUBLISHED)
    text, plain = (
        make(table, PUBLISHED, {"olmo3-7b": "O_3 & 7%"}) for make in (module(name).latex, module(name).markdown)
    )
    assert text.count("{") == text.count("}")
    assert r"O\_3 \& 7\%" in text
    assert rf"\label{{tab:lexframe-{name}}}" in text
    for block, body in zip(text.split(r"\begin{tabular}")[1:], plain.split(THEIRS), strict=True):
        rows = [line for line in block.split(r"\midrule")[1].splitlines() if line.endswith(r"\\")]
        heads = lines(body)[0].count(" | ")
        assert len(rows) == len(lines(body)) - 2
        assert all(line.count(" & ") == heads for line in rows)
        assert f"{{l{'r' * heads}}}" in block


@pytest.mark.parametrize("name", [*PAPERS, "translators", "intervals", "sensitivity", "costs"])
def test_other_estimates_are_refused_in_one_line(name):
    nothing = frame(row("accuracy", "model", 0.4, layer=8))
    with pytest.raises(LensproofError, match="give those of") as caught:
        module(name).tidy(nothing, PUBLISHED)
    assert "\n" not in str(caught.value)
    with pytest.raises(LensproofError, match="the estimates lack experiment"):
        module(name).tidy(pd.DataFrame(), PUBLISHED)


def test_a_table_of_another_checkpoint_has_no_published_values(papers_own, root):
    table = module("table5").tidy(papers_own.assign(checkpoint="toy"), PUBLISHED)
    assert table["published"].isna().all()
    validator = Draft202012Validator(yaml.safe_load((root / "workflow/schemas/table.schema.yaml").read_text()))
    for line in table.astype(object).where(table.notna(), None).to_dict("records"):
        validator.validate({key: getattr(value, "item", lambda value=value: value)() for key, value in line.items()})


def test_contrasts_and_layers_are_not_mistaken_for_means():
    rows = (
        row("success", "native_basis", 0.9, 0.01, experiment="composition"),
        row("success", "native_basis", 0.2, 0.01, experiment="composition", contrast="difference", reference="zero"),
        row("success", "native_basis", 0.3, 0.01, experiment="composition", layer=3),
        row("success", "native_basis", 0.4, 0.01, experiment="stand_ins"),
    )
    assert module("table3").tidy(frame(*rows), PUBLISHED)["point"].tolist() == [0.9]


def test_table8_shows_the_three_calibration_texts():
    about = {"experiment": "stand_ins"}
    rows = [
        row("kl", "mean_and_regression", 0.16 + n / 100, 0.01, setting=f"calibration_{n}", **about) for n in (1, 2, 3)
    ]
    table = lexframe_table8.tidy(frame(row("kl", "mean_and_regression", 0.16, 0.01, **about), *rows), PUBLISHED)
    assert table["point"].tolist() == [0.16, 0.17, 0.18, 0.19]
    ours, theirs = lexframe_table8.markdown(table, PUBLISHED).split(THEIRS)
    assert "| Mean and regression, text 3 | 0.190 [0.180, 0.200] |" in ours
    assert theirs.count("Mean and regression") == 1


def test_table1_takes_in_the_tuned_lens_on_the_runs_corpus(papers_own):
    about = {"experiment": "translators", "checkpoint": "smollm3-3b", "layers": 3}
    rows = [row("kl", "tuned_lens", 1.5, 0.1, setting=setting, **about) for setting in ("held_out", "wiki")]
    rows[1]["point"] = 9.0
    table = lexframe_table1.tidy(pd.concat([papers_own, frame(*rows)]), PUBLISHED)
    assert table[table["method"] == "tuned_lens"][["point", "layers"]].to_numpy().tolist() == [[1.5, 3]]
    text = lexframe_table1.markdown(table, PUBLISHED)
    assert "The tuned lens was trained on wiki; it is read at" in text
    assert "another corpus" not in text
    unknown = lexframe_table1.tidy(pd.concat([papers_own, frame(rows[0])]), PUBLISHED)
    assert "was trained on" not in lexframe_table1.markdown(unknown, PUBLISHED)
    titles = [line.split(" | ")[0] for line in lines(text.split(THEIRS)[0])]
    assert titles[2:5] == ["| Logit lens", "| Tuned lens", "| Jacobian lens"]
    assert "Tuned lens" not in text.split(THEIRS)[1]
    assert "tuned" not in lexframe_table1.markdown(lexframe_table1.tidy(papers_own, PUBLISHED), PUBLISHED)


# -- other tables of estimates


def test_translators_by_corpus():
    methods = ("logit_lens", "random_translator", "tuned_lens")
    rows = [
        row(measure, method, index + (corpus == "held_out"), 0.01, experiment="translators", setting=corpus)
        for corpus in ("enwiki_sample", "held_out")
        for measure in ("kl", "top1")
        for index, method in enumerate(methods)
    ]
    text = lexframe_translators.markdown(lexframe_translators.tidy(frame(*rows), PUBLISHED), PUBLISHED)
    assert "toy: KL (nats), enwiki sample | toy: Top-1, enwiki sample | toy: KL (nats), held out" in text
    assert [line.split(" | ")[:2] for line in lines(text)[2:]] == [
        ["| Tuned lens", "2.00 [1.99, 2.01]"], ["| Random translator", "1.00 [0.99, 1.01]"],
        ["| Logit lens", "0.000 [-0.010, 0.010]"],
    ]  # fmt: skip
    assert THEIRS not in text


def test_intervals_by_number_of_documents_in_numerical_order():
    about = {"experiment": "intervals"}
    rows = [row("half_width_kl", "lexframe_1", 1 / int(n), 0.01, setting=n, **about) for n in ("16", "4", "8")]
    rows.append(row("shrinkage_exponent_kl", "lexframe_1", -0.5, unit="power", **about))
    text = lexframe_intervals.markdown(lexframe_intervals.tidy(frame(*rows), PUBLISHED), PUBLISHED)
    assert [line.split(" | ")[0].removeprefix("| LexFrame[1], ") for line in lines(text)[2:]] == [
        "4 documents", "8 documents", "16 documents", "power"
    ]  # fmt: skip
    assert "0.125 [0.115, 0.135]" in text
    assert "| -0.500 [-0.500, -0.500] |" in text
    assert "An empty cell: powers stand in the rows of the power" in text
    assert "no power is fitted" not in text


def test_intervals_without_a_power_have_no_empty_columns_and_say_why():
    rows = [row("half_width_kl", "lexframe_1", 1 / int(n), 0.01, setting=n, experiment="intervals") for n in "45"]
    rows += [{**line, "measure": "half_width_top1"} for line in rows]
    text = lexframe_intervals.markdown(lexframe_intervals.tidy(frame(*rows), PUBLISHED), PUBLISHED)
    assert lines(text)[0] == "| Method | toy: Half-width of KL (nats) | toy: Half-width of Top-1 |"
    assert "|  |" not in text
    assert "no power is fitted, since one fits any two: that takes 9 documents or more." in text
    assert "An empty cell" not in text


def test_wall_clock_costs_beside_the_papers_ratio():
    about = {"experiment": "costs", "checkpoint": "smollm3-3b"}
    rows = (
        row("time_ratio", "jacobian_lens", 12.34, math.nan, unit="ratio", **about),
        row("time_ratio", "jacobian_lens", 6.78, math.nan, unit="ratio", setting="wall", **about),
        row("seconds", "readings", 40.0, 1.5, unit="seconds", **about),
    )
    table = lexframe_costs.tidy(frame(*rows), PUBLISHED)
    assert table.set_index("setting").loc["wall", "published"].max() == 18
    ours, theirs = lexframe_costs.markdown(table, PUBLISHED).split(THEIRS)
    assert "| Jacobian lens | 12.3 |  |" in ours
    assert "| Jacobian lens, wall clock | 6.8 |  |" in ours
    assert "A number without an interval: each step behind it was one job" in ours
    assert "An empty cell: only the fit of the Jacobian lens is compared with the rest." in ours
    assert "| Reading of the test set |  | 40.0 [38.5, 41.5] |" in ours
    assert "| Jacobian lens, wall clock | 18 |  | 44 |  |" in theirs
    assert "| Jacobian lens | 18" not in theirs


def test_a_variant_stands_beside_what_was_chosen():
    about = {"experiment": "sensitivity"}
    rows = (
        row("kl", "lexframe_1", 0.16, 0.01, **about),
        row("kl", "lexframe_1", 0.18, 0.01, setting="bos", **about),
        row("kl", "lexframe_1", 0.99, 0.01, setting="bos", layer=3, **about),
        row("kl", "lexframe_1", 0.02, 0.01, setting="bos", contrast="difference", **about),
        row("top1", "lexframe_1", 0.80, 0.01, setting="lsmr_steps", **about),
        row("kl", "lexframe_1", 0.16, 0.01, checkpoint="other", **about),
        row("kl", "lexframe_1", 0.16, 0.02, checkpoint="other", setting="resample_sequences", **about),
    )
    table = lexframe_sensitivity.tidy(frame(*rows), PUBLISHED)
    assert table["point"].tolist() == [0.16, 0.18, 0.80, 0.16, 0.16]
    assert table["difference"].dropna().tolist() == [0.02]
    text = lexframe_sensitivity.markdown(table, PUBLISHED, {"toy": "Toy"})
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines(text)[2:]] == [
        "without the token that marks a beginning", "30 steps of LSMR, not the closed form",
        "sequences resampled, not documents",
    ]  # fmt: skip
    assert [line.split(" | ")[1:] for line in lines(text)[2:]] == [
        ["KL (nats), LexFrame[1]", "0.160 [0.150, 0.170]", "0.180 [0.170, 0.190]", "0.020 [0.010, 0.030]†",
         "0.160 [0.150, 0.170]", "the model uses no such token", "none |"],
        ["Top-1, LexFrame[1]", "not observed", "0.800 [0.790, 0.810]", "not defined", "not observed", "not observed",
         "none |"],
        ["KL (nats), LexFrame[1]", "0.160 [0.150, 0.170]", "not observed", "none", "0.160 [0.150, 0.170]",
         "0.160 [0.140, 0.180]", "0 (the interval differs) |"],
    ]  # fmt: skip
    assert "leaves out 0: without the token that marks a beginning (KL (nats), LexFrame[1]) on Toy." in text
    assert lexframe_sensitivity.latex(table, PUBLISHED).count(r"\begin{tabular}{lrrrrrrr}") == 1


@pytest.mark.parametrize(
    ("point", "half", "is_large"), [(0.02, 0.01, True), (-0.02, 0.01, True), (0.02, 0.03, False), (0.01, 0.001, False)]
)
def test_a_difference_is_large_by_its_size_and_its_interval(point, half, is_large):
    assert large(row(point=point, half=half), 0.16) is is_large
    assert large(row(point=point, half=half), -0.16) is is_large


def test_every_variant_of_an_open_point_is_called_something():
    for point in catalogue.load("open_points")["lexframe"].values():
        for variant in point.get("sensitivity", ()):
            assert variant in SETTINGS


def test_every_variant_but_the_layers_of_the_mean_is_an_open_point():
    """What the modules of the experiment and of its statistics say that they vary."""
    said = f"{sensitivity_experiment.__doc__} {sensitivity.__doc__}"
    variants = {name for name in SETTINGS if f"``{name}``" in said}
    points = catalogue.load("open_points")["lexframe"].values()
    assert variants - {variant for point in points for variant in point.get("sensitivity", ())} == {"layers_0_and_L"}


@pytest.mark.parametrize("path", sorted({path for entry in catalogue.load("claims")["claims"].values()
                                         for path in entry.get("published", ())
                                         if entry["paper"] in TEXTS}))  # fmt: skip
def test_every_published_value_behind_a_claim_is_called_something(path):
    title = stated_title(path)
    assert not re.search(r"[a-z0-9]+_[a-z0-9]|\.\w", title)
    assert title[0].isupper() or title.startswith("KL")


# -- tables of words


def test_open_points_are_whole():
    values = PUBLISHED | {"open_points": catalogue.load("open_points")}
    table = lexframe_open_points.tidy(pd.DataFrame(), values)
    assert table["id"].is_unique
    assert {"logit_scale_and_softcap", "first_position_attention", "reading_prefix", "side"} <= set(table["id"])
    text = lexframe_open_points.markdown(table, values)
    assert len(lines(text)) == len(table) + 2
    assert "Sensitivity: without the token that marks a beginning" in text
    assert "Sensitivity: second half of a sequence from another document; sequences resampled, not documents" in text
    assert "Not tested: Neither the paper's models" in text
    latex = lexframe_open_points.latex(table, values)
    assert latex.count("{") == latex.count("}")
    values["open_points"]["lexframe"]["side"]["untested"] = "and a second answer"
    with pytest.raises(LensproofError, match=r"open_points\.yaml: side needs where, open, chosen and one of"):
        lexframe_open_points.tidy(pd.DataFrame(), values)


def claims_table() -> pd.DataFrame:
    """``results/claims.csv`` of one checkpoint with one claim judged, one not testable and the others not run."""
    rows = []
    for name in claims():
        line = dict.fromkeys(COLUMNS)
        line |= {"claim": name, "statement": f"what {name} says", "level": "desk", "verdict": "not run"}
        if name == "lexframe_order1_halves_order0_kl":
            line |= {"checkpoint": "toy", "verdict": "reproduced", "estimate": 0.81, "lo": 0.8, "hi": 0.82, "n": 5}
            line |= {"published": "order0_to_order1_kl_drop 0.816 (smollm3-3b), 0.839 (olmo3-7b)"}
        if name == "lexframe_lens_angle_values":
            line |= {"checkpoint": "toy", "verdict": "not testable", "estimate": 71.0}
        rows.append(line)
    return pd.DataFrame(rows)


def test_statements_of_the_text_with_their_verdicts():
    values = PUBLISHED | {"claims": catalogue.load("claims")}
    table = lexframe_text.tidy(claims_table(), values)
    assert "lexframe_table3_values" not in set(table["claim"])  # a table alone says it
    assert {"lexframe_lens_angle_values", "lexframe_relaxation_is_exponential"} <= set(table["claim"])
    found = {line.split(" | ")[0]: line for line in lines(lexframe_text.markdown(table, values, {"toy": "Toy"}))}
    assert found["| Statement"] == "| Statement | Where | Paper | Toy: Ours |"
    assert found["| what lexframe_order1_halves_order0_kl says"].endswith(
        "| KL of order 1 below that of order 0, share 0.816 (SmolLM3-3B), 0.839 (Olmo 3 7B) | reproduced, "
        "0.810 [0.800, 0.820] |"
    )
    assert found["| what lexframe_lens_angle_values says"].endswith("| not testable |")
    assert found["| what lexframe_order2_direction_nearer says"].endswith("| not run |")
    assert r"KL of order 1 below that of order 0, share 0.816" in lexframe_text.latex(table, values)
    with pytest.raises(LensproofError, match=r"made from results/claims\.csv"):
        lexframe_text.tidy(frame(row()), values)


def examples() -> pd.DataFrame:
    """Trials of two prefixes with one checkpoint of nine layers."""
    said = (
        (4, "logit_lens", " the", 0.5), (4, "lexframe_1", " Times", 0.22), (8, "logit_lens", "\n", 0.1),
        (8, "lexframe_1", " Guardian", 0.29), (9, "model", " Guardian", 0.29), (9, "model", " Times", 0.22),
    )  # fmt: skip
    rows = [
        {"checkpoint": "toy", "document": number, "prefix": prefix, "layer": layer, "method": method, "token": token,
         "probability": probability, "rank": int((method, token) == ("model", " Times"))}
        for number, prefix in enumerate(("A review", "A train"))
        for layer, method, token, probability in said
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_examples_by_layer_and_method():
    estimates = estimate_examples(examples(), resamples=100, level=0.95, seed=0)
    table = lexframe_table9.tidy(estimates, PUBLISHED)
    assert len(table) == len(examples())
    text = lexframe_table9.markdown(table, PUBLISHED, {"toy": "Toy"})
    assert "Toy, “A review”, the model: ·Guardian 0.29, ·Times 0.22:" in text
    assert "· stands for a space at either end of a token" in text
    assert lines(text) == 2 * [
        "| Layer | Logit lens | LexFrame[1] |", "| --- | --- | --- |", "| 4 | ·the 0.50 | ·Times 0.22 |",
        r"| 8 | \n 0.10 | ·Guardian 0.29 |",
    ]  # fmt: skip
    assert "LexFrame[1] at 16, Jacobian lens at 20, Logit lens at 24; LexFrame[1] reads Times at 12" in text
    assert r"\textbackslash{}n" in lexframe_table9.latex(table, PUBLISHED)
    with pytest.raises(LensproofError, match="give those of examples"):
        lexframe_table9.tidy(frame(row()), PUBLISHED)


def test_examples_say_where_the_models_answer_is_first_read():
    estimates = estimate_examples(examples(), resamples=100, level=0.95, seed=0)
    first = estimates[(estimates["measure"] == "first_layer") & (estimates["setting"] == "prefix_1")]
    assert dict(zip(first["method"], first["point"], strict=True)) == {"logit_lens": 9, "lexframe_1": 8}
    case = evidence(pd.concat([estimates, frame(row())]), PUBLISHED, experiment="examples")[0]
    quantity = Quantity(measure="probability", method="model", setting="prefix_2")
    assert (case.find(quantity).point, case.token(quantity)) == (0.29, "Guardian")
    second = quantity.model_copy(update={"measure": "further_probability"})
    assert (case.find(second).point, case.token(second)) == (0.22, "Times")


# -- cells and names


@pytest.mark.parametrize(
    ("token", "shown"),
    [("the", "the"), (" the", "·the"), ("the ", "the·"), ("  a b ", "··a b·"), (" ", "·"), ("   ", "···"), ("", ""),
     ("\n", "\\n"), (" \t\r", "·\\t\\r"), ("\x00", "U+0000"), ("\u3000", "U+3000"), ("中", "中")],
)  # fmt: skip
def test_a_token_is_shown_on_one_line_with_the_spaces_at_its_ends(token, shown):
    assert visible(token) == shown


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (row(point=12.345, half=0.5), "12.35 [11.85, 12.85]"),
        (row(point=0.12345, half=0.01), "0.123 [0.113, 0.133]"),
        (row(point=12.345, half=0.5, unit="degrees"), "12.3 [11.8, 12.8]"),
        (row(point=0.5, unit="share"), "0.500 [0.500, 0.500]"),
        (row(point=-0.0001, half=0.0002), "0.000 [0.000, 0.000]"),
        (row(point=0.5, half=float("nan")), "0.500"),
        (row(point=float("nan"), half=0.0), "not defined"),
    ],
)
def test_intervals_in_cells(estimate, text):
    assert interval(estimate) == text


@pytest.mark.parametrize("name", PAPERS)
@pytest.mark.parametrize(
    ("half", "note"), [(0.01, None), (0.0, NO_WIDTH), (1e-7, NO_WIDTH), (float("nan"), NO_INTERVAL)]
)
def test_an_interval_that_is_not_as_usual_has_a_note(papers_own, name, half, note):
    changed = papers_own.assign(lo=papers_own["point"] - half, hi=papers_own["point"] + half)
    table = module(name).tidy(changed, PUBLISHED)
    for make in (module(name).markdown, module(name).latex):
        text = make(table, PUBLISHED)
        assert [sentence in text for sentence in (NO_WIDTH, NO_INTERVAL)] == [note == NO_WIDTH, note == NO_INTERVAL]


@pytest.mark.parametrize("name", [*PAPERS, "translators", "intervals", "sensitivity"])
def test_a_caption_says_over_which_layers_and_documents(papers_own, name):
    """As the estimates say, for each checkpoint."""
    rows = papers_own
    if name not in PAPERS:
        method, measure = ("tuned_lens", "kl") if name == "translators" else ("lexframe_1", "half_width_kl")
        about = {"experiment": name, "setting": "4"}
        rows = frame(*(row(measure, method, 1.0, 0.1, checkpoint=own, **about) for own in PUBLISHED["checkpoints"]))
        rows = pd.concat([rows, rows.assign(setting=None)])
    first = rows["checkpoint"] == next(iter(PUBLISHED["checkpoints"]))
    rows = rows.assign(over=first.map({True: "3, 6, ..., 27", False: "5"}), clusters=first.map({True: 17, False: 9}))
    text = module(name).markdown(module(name).tidy(rows, PUBLISHED), PUBLISHED)
    assert "layers 3, 6, ..., 27 (SmolLM3-3B) and 5 (Olmo 3 7B)" in text
    assert "17 documents (SmolLM3-3B) and 9 documents (Olmo 3 7B)" in text
    text = module(name).markdown(module(name).tidy(rows.assign(over="12", clusters=7), PUBLISHED), PUBLISHED)
    assert "layer 12" in text
    assert "layers 12" not in text
    text = module(name).markdown(module(name).tidy(rows.assign(over="3, 6", clusters=7), PUBLISHED), PUBLISHED)
    assert re.search(r"layers 3, 6\b(?! \()", text)
    assert re.search(r"\b7 documents(?! \()", text)


@pytest.mark.parametrize("name", PAPERS)
def test_a_mean_over_one_layer_is_not_called_a_mean_over_layers(papers_own, name):
    for over, mean in (("3, 6", True), ("12", False)):
        text = module(name).markdown(module(name).tidy(papers_own.assign(over=over), PUBLISHED), PUBLISHED)
        assert f"{'layers' if mean else 'layer'} {over}" in text
        assert bool(re.search("(?i)mean over layer", text)) is (mean and name != "table7")
        assert mean or "each layer weighing" not in text


FEWER = {
    "table1": ("tuned_lens", "kl", "Tuned lens"), "table2": ("geodesic", None, "Geodesic distance"),
    "table5": ("native_basis", None, "Native basis"), "table7": (None, "skipped", "Skipped"),
    "table8": (None, "cosine", "Cosine"),
}  # fmt: skip


@pytest.mark.parametrize("name", FEWER)
@pytest.mark.parametrize("counts", [(4, 4), (4, 2), (4, 5)])
def test_documents_of_what_rests_on_fewer_are_named(papers_own, name, counts):
    """Of all rows shown, whatever tells them apart; in all checkpoints, by checkpoint, or in one of them only."""
    method, measure, title = FEWER[name]
    rows, checkpoints = papers_own, list(PUBLISHED["checkpoints"])
    if name == "table1":
        about = {"experiment": "translators", "setting": "held_out", "layers": 1}
        rows = pd.concat([rows, frame(*(row("kl", method, 1.5, 0.1, checkpoint=own, **about) for own in checkpoints))])
    few = (rows["method"] == method) | (method is None) & (rows["measure"] == measure)
    rows = rows.assign(clusters=rows["checkpoint"].map(dict(zip(checkpoints, counts, strict=True))).where(few, 5))
    text = module(name).markdown(module(name).tidy(rows, PUBLISHED), PUBLISHED)
    one, other = (PUBLISHED["checkpoints"][own]["title"] for own in checkpoints)
    said = {(4, 4): "4", (4, 2): f"4 ({one}) and 2 ({other})", (4, 5): f"4 ({one})"}[counts]
    assert f"5 documents; {title}: {said}" in text.replace(" of the replaced states", "")
    assert f"{title}: {said} (" not in text


def test_an_empty_cell_is_explained(papers_own):
    part = papers_own[(papers_own["method"] != "lexframe_1_basis") | (papers_own["measure"] != "clean")]
    for rows, explained in ((papers_own, False), (part, True)):
        rows = rows[rows["measure"].isin(["clean", "reach"]) | (rows["experiment"] != "steering")]
        text = module("table3").markdown(module("table3").tidy(rows, PUBLISHED), PUBLISHED)
        assert EMPTY not in text
        layout = replace(module("table5").LAYOUT, columns=module("table5").LAYOUT.columns[::3])
        assert (EMPTY in layout.markdown(layout.tidy(rows, PUBLISHED), PUBLISHED)) is explained


def test_latex_escapes():
    assert escape(r"a_b & 50% [1] \ {²}") == r"a\_b \& 50\% {[}1{]} \textbackslash{} {\textsuperscript{2}}"


def test_every_method_and_measure_has_a_title_of_its_own():
    names = [*FIXED, *NATIVE, "lexframe_1", "lexframe_1_basis", "lexframe_1_readout", "lexframe_1_difference"]
    names += ["lexframe_1_linear", "lexframe_1_reading_kl", "lexframe_1_reading_kl_own_prefix", "lexframe_2"]
    shown = [method_title(name) for name in names]
    assert len(set(shown)) == len(shown)
    assert not any("_" in title for title in shown)
    assert len(set(MEASURES.values())) == len(MEASURES)
    assert method_title("lexframe_2_basis") == "LexFrame[2] basis"
    assert method_title("something_new") == "Something new"
    assert measure_title("something_new") == "Something new"
    assert setting_title("calibration_1") == "calibration 1"


# -- commands and captions


def lensproof(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "lensproof", *map(str, arguments)], capture_output=True, text=True)


def test_commands_by_name(tmp_path, papers_own):
    """Estimates of several experiments, a table of claims, and nothing."""
    files = []
    for experiment in ("steering", "readings"):
        files.append(tmp_path / experiment / "smollm3-3b.parquet")
        write_parquet(files[-1], papers_own[papers_own["experiment"] == experiment], {})
    claims_csv = tmp_path / "claims.csv"
    claims_table().to_csv(claims_csv, index=False)
    for name, given in (("table5", files), ("text", [claims_csv]), ("open_points", [])):
        out = tmp_path / "made" / f"{name}.csv"
        done = lensproof("table", "lexframe", name, *given, "--out", out)
        assert (done.returncode, done.stderr) == (0, "")
        assert {path.suffix for path in out.parent.glob(f"{name}.*")} == {".csv", ".md", ".tex", ".json"}
    inputs = read_json(tmp_path / "made/table5.provenance.json")["inputs"]
    assert set(inputs) == {"steering/smollm3-3b", "readings/smollm3-3b"}


def test_the_code_of_a_table_is_part_of_its_provenance(tmp_path, papers_own):
    found = []
    for name in ("table3", "table5"):
        file = tmp_path / "estimates.parquet"
        write_parquet(file, papers_own, {})
        done = lensproof("table", "lexframe", name, file, "--out", tmp_path / f"{name}.csv")
        assert (done.returncode, done.stderr) == (0, "")
        found.append(read_json(tmp_path / f"{name}.provenance.json")["code"])
    assert found[0] != found[1]


def test_bad_input_is_one_line(tmp_path, papers_own):
    file = tmp_path / "estimates.parquet"
    write_parquet(file, papers_own[papers_own["experiment"] == "readings"], {})
    for arguments, words in (
        (["table3", file], "the estimates hold nothing of Table 3: give those of composition"),
        (["table3"], "table3 is made from results/estimates/lexframe/composition/CHECKPOINT.parquet: give the files"),
        (["text"], "text is made from results/claims.csv: give the files"),
        (["open_points", file], "open_points is made from no file"),
        (["table3", file, file], "estimates.parquet is given twice"),
        (["table99", file], "there is no table 'table99': use one of table1, table2, "),
        (["text", tmp_path / "absent.csv"], "absent.csv does not exist"),
    ):
        done = lensproof("table", "lexframe", *arguments, "--out", tmp_path / "out.csv")
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert words in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["estimates.parquet"]


def test_the_catalogue_of_tables_is_whole():
    assert set(figures.TABLES["lexframe"]) == {*PAPERS, *OTHERS}
    for name in figures.TABLES["lexframe"]:
        assert figures.ALSO["lexframe"].get(name, ()) == getattr(module(name), "ALSO", ())


@pytest.mark.parametrize("name", [*PAPERS, *OTHERS])
def test_every_table_has_a_caption(papers_own, name):
    """The report includes it: its Markdown has to be reStructuredText too."""
    own = module(name)
    text = own.markdown(own.tidy(papers_own, PUBLISHED), PUBLISHED) if name in PAPERS else own.CAPTION
    first = text.splitlines()[0]
    assert publish_string(first, writer="html5", settings_overrides={"halt_level": 2})
    if name in PAPERS:
        assert first.startswith(f"**Table {name[-1]}.** ")
        assert "95%" in first
    for function in ("tidy", "markdown", "latex"):
        assert callable(getattr(own, function))
