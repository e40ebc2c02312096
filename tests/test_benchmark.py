"""The five-arm benchmark: passages, both families, their invariants, and donors for targets (Gathered section 1)."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import re
from collections import Counter
from typing import get_args

import numpy as np
import pytest
from benchmark_world import APART, BOS, JOINED, LANGUAGES, WORDS, folder, passage, passages, tokenizer

from lensproof.config import RecordSet
from lensproof.corpora.benchmark import invariants, language, sets, tracking
from lensproof.corpora.benchmark.draws import Deck, Draws
from lensproof.corpora.benchmark.pairs import counterfactual, mismatched
from lensproof.corpora.benchmark.passages import TRAINING, load, read, write
from lensproof.corpora.benchmark.record import ARMS
from lensproof.corpora.benchmark.tokenised import tokenised
from lensproof.corpora.benchmark.vocabulary import Vocabulary
from lensproof.corpora.benchmark.wording import CUE, LANGUAGE, SPAN_ARMS, TRACKING, without_cue
from lensproof.errors import LensproofError
from lensproof.statistics.bootstrap import resampling_weights

DEFAULT, LENGTH = LANGUAGE["default"], LANGUAGE["length"]


def spoken(**options):
    """Records of the language family, as wanted."""
    given = {"count": 12, "seed": 0, **options}
    return language.build(given.pop("passages", passages()), given.pop("wording", DEFAULT), tokenizer(), **given)


def tracked(**options):
    given = {"count": 12, "seed": 0, **options}
    return tracking.build(given.pop("wording", TRACKING["default"]), tokenizer(), **given)


def arms(records, instance=0):
    """Arm -> record of one instance."""
    names = list(dict.fromkeys(record.semantic_instance_id for record in records))
    return {r.condition: r for r in records if r.semantic_instance_id == names[instance]}


def same_draws(record):
    """What the draws made of an instance, whatever its wording."""
    return record.semantic_instance_id, record.latent_value, record.meta["symbols"], record.meta.get("passage")


# -- draws


def test_draws_are_those_of_sha256():
    """Pinned by hand, so that no version of anything moves them: int(sha256("7/a/0")[:16], 16) * 1000 >> 64, ..."""
    draws = Draws(7, "a")
    digests = [hashlib.sha256(f"7/a/{number}".encode()).hexdigest()[:16] for number in range(3)]
    assert [draws.below(1000) for _ in range(3)] == [int(digest, 16) * 1000 >> 64 for digest in digests]
    assert [Draws("x").below(100), Draws("x").choice("abcdef"), Draws("y").below(100)] == [1, "a", 18]


def test_draws_are_even_and_without_replacement():
    draws = Draws("even")
    counts = Counter(draws.below(5) for _ in range(5000))
    assert all(abs(counts[value] - 1000) < 120 for value in range(5))  # more than four standard deviations
    assert sorted(draws.shuffled(range(9))) == list(range(9))
    assert len(set(draws.sample(range(9), 4))) == 4


def test_a_deck_deals_every_item_before_any_again():
    deck = Deck("abcd", "deck")
    rounds = ["".join(deck.deal() for _ in range(4)) for _ in range(20)]
    assert all(sorted(dealt) == list("abcd") for dealt in rounds)
    assert len(set(rounds)) > 1


# -- passages


def test_passages_of_a_folder(tmp_path):
    found = load(folder(tmp_path))
    assert [item.id for item in found] == [f"{number:02d}" for number in range(1, 29)]
    assert set(found[0].text) == set(LANGUAGES)
    assert found[1].text["Polish"] == "chleb woda. woda dom? dom 02."
    assert found[1].continuation["Polish"] == "«pies», chleb."
    assert [item.training for item in found] == [True] * TRAINING + [False] * 4
    assert [item.question("Polish") for item in found[:2]] == [False, True]
    assert set(load(tmp_path, languages=["Dutch", "Polish"])[0].text) == {"Dutch", "Polish"}
    write(tmp_path / "all.json", found, {"made": "here"})
    assert read(tmp_path / "all.json") == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("# 02 topic", "# 02 other"), "polish.txt: the heading '# 02 other' stands where"),
        (lambda text: text.replace("# 02 topic\n", ""), "polish.txt: 'chleb woda.' stands where a heading"),
        (lambda text: text.replace("# 02", "# 01"), "polish.txt: two passages are numbered 01"),
        (lambda text: text.replace("woda dom?", "woda dom."), "# 02 topic: sentence 2 lacks the question mark"),
        (lambda text: text.replace("dom 03.", "dom 03?"), "# 03 topic: sentence 3 has a question mark, unlike English"),
        (lambda text: text.replace("dom 01.\n", ""), "# 01 topic: 3 lines, not 3 sentences and a continuation"),
        (lambda text: text.split("\n\n# 28")[0], "polish.txt has 27 passages, not the 28 of English"),
        (lambda text: text.replace("pies", "cafe\u0301"), "NFC"),
    ],
)
def test_passages_that_are_not_parallel(tmp_path, change, message):
    file = folder(tmp_path) / "polish.txt"
    file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(LensproofError, match=re.escape(message)) as error:
        load(tmp_path)
    assert "\n" not in str(error.value)


def test_passages_that_are_not_there(tmp_path):
    with pytest.raises(LensproofError, match="not a folder of passages"):
        load(tmp_path / "nowhere")
    folder(tmp_path)
    with pytest.raises(LensproofError, match="has no passages in Greek .there are in Dutch, French"):
        load(tmp_path, languages=["Greek"])
    with pytest.raises(LensproofError, match="has no passages in English"):
        load(tmp_path, languages=["English"])
    (tmp_path / "polish.txt").write_bytes(b"# 01 topic\n\xff")
    with pytest.raises(LensproofError, match="polish.txt is not UTF-8"):
        load(tmp_path)
    (tmp_path / "english.txt").unlink()
    with pytest.raises(LensproofError, match="has no english.txt"):
        load(tmp_path)
    for content, words in (("[]", "it has no passages"), ('{"passages": [{"id": "01"}]}', "it holds no passages")):
        (tmp_path / "all.json").write_text(content)
        with pytest.raises(LensproofError, match=f"all.json is damaged, or .*{words}.*: give another"):
            read(tmp_path / "all.json")


@pytest.mark.parametrize("form", ["devtest", "jsonl"])
def test_flores_rows_through_the_same_interface(tmp_path, form):
    place = tmp_path / "devtest" if form == "jsonl" else tmp_path
    place.mkdir(exist_ok=True)
    for code in ("spa_Latn", "deu_Latn", "rus_Cyrl"):
        rows = [f"{code} {number}{'?' if number == 5 else '.'}" for number in range(11)]
        lines = [json.dumps({"id": n, "text": row}) for n, row in enumerate(rows)] if form == "jsonl" else rows
        (place / f"{code}.{form}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    first, second = load(tmp_path, "flores")
    assert first.text["German"] == "deu_Latn 0. deu_Latn 1. deu_Latn 2."
    assert first.continuation["German"] == "deu_Latn 3."
    assert second.text["Russian"] == "rus_Cyrl 4. rus_Cyrl 5? rus_Cyrl 6."
    assert [item.question("Spanish") for item in (first, second)] == [False, True]
    assert first.id != second.id
    assert not first.training
    with pytest.raises(LensproofError, match="has no passages in French"):
        load(tmp_path, "flores", ["French"])
    broken = place / f"spa_Latn.{form}"
    broken.write_text(broken.read_text().rsplit("\n", 2)[0] + "\n")
    with pytest.raises(LensproofError, match="10 rows in Spanish, 11 in .*not parallel"):
        load(tmp_path, "flores")
    broken.write_bytes(b"uno \xff")
    with pytest.raises(LensproofError, match=rf"spa_Latn.{form} is not UTF-8 text"):
        load(tmp_path, "flores")
    if form == "jsonl":
        broken.write_text('{"sentence": "uno"}\n')
        with pytest.raises(LensproofError, match="does not hold a JSON object with `text` in every line"):
            load(tmp_path, "flores")


# -- the language family


def test_every_arm_of_a_language_instance():
    built = spoken()
    assert len(built.records) == 12 * 5
    for instance in range(12):
        own = arms(built.records, instance)
        assert list(own) == list(ARMS)
        z, symbols, dummy = own["report"].latent_value, own["report"].meta["symbols"], own["supplied"].meta["supplied"]
        number = int(own["report"].meta["passage"])
        asks = number % 2 == 0
        text = passage(number, asks).text[z]
        assert len(symbols) == 4
        assert len(set(symbols.values())) == 4
        legend = ", ".join(f"{name} = {symbol}" for name, symbol in symbols.items())
        assert {record.context for record in own.values()} == {f"Key: {legend}.\nPassage:\n{text}\nEnd"}
        gold = {"report": z, "flexible": symbols[z], "supplied": symbols[dummy], "control": "Yes" if asks else "No"}
        assert {arm: own[arm].gold_answer for arm in gold} == gold
        assert own["automatic"].gold_answer == WORDS[z].split()[-1]
        assert own["automatic"].candidate_answers == tuple(WORDS[name].split()[-1] for name in symbols)
        assert own["report"].candidate_answers == tuple(symbols)
        assert own["supplied"].instruction == f"Which letter does the key give for {dummy}?\nAnswer:"
        assert dummy != z
        ids = tokenizer().get_vocab()
        for record in own.values():
            assert record.prompt.endswith("\n\n" + record.instruction)
            assert record.instruction.endswith("\n" + CUE)
            assert record.candidate_token_ids == tuple(ids[f" {answer}"] for answer in record.candidate_answers)
            assert record.latent_token_id == ids[f" {z}"]
            assert record.control_token_ids == tuple(ids[f" {name}"] for name in symbols if name != z)
            assert (record.operator_family == "lookup") == (record.condition in ("flexible", "supplied"))
            assert record.cluster == record.meta["passage"]


def test_an_unmatched_legend_stands_only_where_it_is_needed():
    matched, unmatched = spoken(), spoken(variant="unmatched")
    assert list(map(same_draws, matched.records)) == list(map(same_draws, unmatched.records))
    for record in unmatched.records:
        assert "Key:" not in record.context
        assert record.instruction.startswith("Key: ") == (record.condition in ("flexible", "supplied"))


def test_the_control_question_is_balanced_and_passages_are_dealt_evenly():
    records = spoken(count=80).records
    assert Counter(r.gold_answer for r in records if r.condition == "control") == {"Yes": 40, "No": 40}
    first = [record.gold_answer for record in records if record.condition == "control"][:10]
    assert Counter(first) == {"Yes": 5, "No": 5}
    used = Counter(record.meta["passage"] for record in records if record.condition == "report")
    assert used == {item.id: 10 for item in passages()}


def test_as_published_the_control_answer_is_no():
    records = spoken(count=40, as_published=True).records
    assert {record.gold_answer for record in records if record.condition == "control"} == {"No"}
    assert {record.meta["as_published"] for record in records} == {True}
    with pytest.raises(LensproofError, match="4 passages have a question and 0 have none"):
        spoken(passages=passages()[1::2])
    with pytest.raises(LensproofError, match="no passage is without a question"):
        spoken(passages=passages()[1::2], as_published=True)


def test_the_supplied_arm_changes_nothing_else():
    without = spoken(arms=[arm for arm in ARMS if arm != "supplied"]).records
    assert [record for record in spoken().records if record.condition != "supplied"] == without


def test_what_a_seed_decides():
    assert spoken().records == spoken().records
    assert list(map(same_draws, spoken().records)) == list(map(same_draws, spoken(wording=LENGTH).records))
    assert list(map(same_draws, spoken().records)) != list(map(same_draws, spoken(seed=1).records))
    assert spoken(languages=sorted(LANGUAGES)).records == spoken(languages=sorted(LANGUAGES, reverse=True)).records
    # Fewer instances are the first of more.
    assert spoken(count=5).records == spoken(count=12).records[:25]


def test_attrition_is_counted():
    names = dict.fromkeys(LANGUAGES, "Polish pan. agua? casa.")
    named = [passage(9, asks=True, **names), passage(10, asks=False)]
    built = spoken(passages=[*passages(), *named], count=60)
    assert built.attrition.instances == 60
    skipped = built.attrition.skipped["the passage contains a candidate's name"]
    assert built.attrition.draws == 60 + skipped
    assert skipped > 0
    assert all("Polish pan" not in record.prompt or "Polish" not in record.meta["symbols"] for record in built.records)
    assert Counter(r.gold_answer for r in built.records if r.condition == "control") == {"Yes": 30, "No": 30}


def alike(*languages):
    """Passages whose continuations begin with one word in these languages."""
    same = dict.fromkeys(languages, "pies.")
    return [dataclasses.replace(item, continuation={**item.continuation, **same}) for item in passages()]


def test_languages_are_drawn_again_where_first_tokens_collide():
    plain, built = spoken(count=40), spoken(passages=alike("Dutch", "Polish"), count=40)
    collided = {name for name, *_ in map(same_draws, both(plain, "Dutch", "Polish"))}
    assert 0 < len(collided) < 40
    assert built.attrition.redrawn == {"first tokens collide": len(collided)}
    assert not built.attrition.dropped
    assert Counter(record.condition for record in built.records) == dict.fromkeys(ARMS, 40)
    assert not both(built, "Dutch", "Polish")
    # Instances in which nothing collides are as they were, and all keep their passages.
    for one, other in zip(plain.records, built.records, strict=True):
        assert one.cluster == other.cluster
        assert (same_draws(one) == same_draws(other)) == (one.semantic_instance_id not in collided)
    assert str(built.attrition) == (f"40 instances from 40 draws; {len(collided)} drawn again, first tokens collide")
    unknown = language.build(passages(), DEFAULT, tokenizer(unknown=("hond",)), count=40)
    assert set(unknown.attrition.redrawn) == {"a first word is unknown"}
    assert not unknown.attrition.dropped
    assert not any("Dutch" in record.meta["symbols"] for record in unknown.records)


def both(built, *languages):
    return [r for r in built.records if r.condition == "report" and set(languages) <= set(r.meta["symbols"])]


def test_an_arm_is_dropped_where_no_draw_tells_its_candidates_apart():
    built = spoken(passages=alike(*LANGUAGES), count=8)
    assert built.attrition.dropped == {"automatic: first tokens collide": 8}
    assert not built.attrition.redrawn
    assert Counter(record.condition for record in built.records) == dict.fromkeys(ARMS[1:], 8)
    assert str(built.attrition) == "8 instances from 8 draws; 8 without automatic: first tokens collide"
    # The published draw is made once.
    published = spoken(passages=alike("Dutch", "Polish"), count=40, as_published=True)
    assert published.attrition.dropped == {"automatic: first tokens collide": len(both(published, "Dutch", "Polish"))}
    assert not published.attrition.redrawn
    assert len(published.records) == 40 * 5 - published.attrition.dropped.total()


def test_a_name_that_is_no_token_is_left_out():
    records = language.build(passages(), DEFAULT, tokenizer(unknown=("Dutch", "Q")), count=40).records
    assert not any("Dutch" in record.meta["symbols"] for record in records)
    assert not any("Q" in record.meta["symbols"].values() for record in records)
    with pytest.raises(LensproofError, match="3 of 6 names of languages are one token .* 4 are needed"):
        language.build(passages(), DEFAULT, tokenizer(unknown=("Dutch", "Polish", "German")), count=2)
    with pytest.raises(LensproofError, match="there are no passages in Greek"):
        spoken(languages=[*LANGUAGES, "Greek"])


def test_nothing_can_be_drawn():
    with pytest.raises(LensproofError, match="0 instances are asked for: a set of records must not be empty"):
        spoken(count=0)
    for text, reason in (
        (". ".join(LANGUAGES), "the passage contains a candidate's name"),
        ("pan " * 600, "prompts over 512 tokens"),
    ):
        hopeless = [passage(n, n == 2, **dict.fromkeys(LANGUAGES, text + "?" * (n == 2))) for n in (1, 2)]
        with pytest.raises(LensproofError, match=f"3 instances are asked for.* 80 skipped, {reason}"):
            spoken(passages=hopeless, count=3)


def test_arms_that_cannot_be_made():
    with pytest.raises(LensproofError, match="no records can be made of no arms"):
        spoken(arms=[])
    with pytest.raises(
        LensproofError, match="no records can be made of supplied: .* instructions for automatic, report"
    ):
        tracked(arms=["report", "supplied"])
    with pytest.raises(LensproofError, match="skipped, no arm is left"):
        spoken(passages=alike(*LANGUAGES), arms=["automatic"])


# -- the tracking family


def followed(context, person):
    """What ``person`` has at the end, by reading the story."""
    held = dict(re.findall(r"(\w+) has the (\w+)\.", context))
    start = dict(held)
    swaps = re.findall(r"(\w+) and (\w+) swap items\.", context)
    for one, other in swaps:
        held[one], held[other] = held[other], held[one]
    return start, swaps, held[person]


@pytest.mark.parametrize("swaps", [3, 1])
def test_every_arm_of_a_tracking_instance(swaps):
    built = tracked(swaps=swaps)
    assert len(built.records) == 12 * 4
    assert built.attrition.skipped["the first person ends with the item of the start"] == built.attrition.draws - 12
    for instance in range(12):
        own = arms(built.records, instance)
        assert list(own) == ["automatic", "report", "flexible", "control"]
        record = own["report"]
        first = record.meta["people"][0]
        start, moves, end = followed(record.context, first)
        assert list(start) == record.meta["people"]
        assert list(start.values()) == record.meta["items"]
        assert len(moves) == swaps == record.meta["swaps"]
        assert end == record.latent_value != start[first]
        assert len(set(start.values()) & set(tracking.EDIBLE)) == 2
        assert own["automatic"].gold_answer == ("Yes" if end in tracking.EDIBLE else "No")
        assert own["flexible"].gold_answer == record.meta["symbols"][end]
        assert set(record.meta["symbols"]) == set(record.candidate_answers) == set(start.values())
        named = own["control"].instruction.removeprefix("Does the story mention ").split("?")[0]
        assert own["control"].gold_answer == ("Yes" if named in record.context else "No")
        assert (named in start) == (named == record.meta["people"][-1])
        assert record.cluster == record.semantic_instance_id
        assert all(first in own[arm].instruction for arm in ("automatic", "report", "flexible"))


def test_tracking_control_in_turn_or_by_chance():
    answers = [record.gold_answer for record in tracked(count=30).records if record.condition == "control"]
    assert answers == ["Yes", "No"] * 15
    published = tracked(count=60, as_published=True).records
    tossed = [record.gold_answer for record in published if record.condition == "control"]
    assert tossed != ["Yes", "No"] * 30
    assert 15 < tossed.count("Yes") < 45


def test_no_two_swaps_in_a_row_undo_each_other():
    for record in tracked(count=40).records:
        pairs = [frozenset(pair) for pair in record.meta["moves"]]
        assert all(one != other for one, other in itertools.pairwise(pairs))


def test_tracking_refusals():
    with pytest.raises(LensproofError, match="4 people are too few"):
        tracked(people=("Anna", "Ben", "Carol", "David"))
    with pytest.raises(LensproofError, match="1 of 2 items of a kind are one token"):
        tracked(items=(("apple", "durian"), tracking.INEDIBLE))
    with pytest.raises(LensproofError, match="a legend is matched or unmatched, not 'half'"):
        tracked(variant="half")


# -- wording


@pytest.mark.parametrize("build", [spoken, tracked])
def test_matched_length(build):
    wording = (LANGUAGE if build is spoken else TRACKING)["length"]
    records, special = build(wording=wording).records, tokenizer()
    for instance in range(12):
        rest = [tokenised(special, record).rest for arm, record in arms(records, instance).items() if arm in SPAN_ARMS]
        assert len(rest) == 4
        assert len({len(ids) for ids in rest}) == 1
        assert len({tuple(ids[-5:]) for ids in rest}) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Write whether any mark is used in the passage above.", "16 tokens after the context, 17 in automatic"),
        ("Write whether any question mark is used in above the passage.", "the last 4 tokens in common, 5 are needed"),
    ],
)
def test_a_wording_that_is_not_of_matched_length(text, message):
    wording = dataclasses.replace(LENGTH, instructions={**LENGTH.instructions, "control": text})
    with pytest.raises(LensproofError, match=f"language-00000-control: matched length: .*{message}"):
        spoken(wording=wording)


def test_without_the_answer_cue():
    record = spoken().records[0]
    bare = without_cue(record)
    assert bare.instruction == "Continue the passage."
    assert bare.context == record.context


# -- invariants


def another(record):
    """A candidate other than z."""
    return next(name for name in record.meta["languages"] if name != record.latent_value)


def broken(changes, arm="flexible", **enforced):
    """Enforce the invariants on an instance, one record of which is changed."""
    own = arms(spoken().records)
    passage_text = own[arm].context.split("Passage:\n")[1].removesuffix("\nEnd")
    own[arm] = dataclasses.replace(own[arm], **changes(own[arm]))
    given = {"passage": passage_text, "table": own[arm].context.split("\n")[0], **enforced}
    invariants.enforce(list(own.values()), Vocabulary(tokenizer()), DEFAULT, given["passage"], given["table"])


BROKEN = {
    "equal contexts": ("flexible", lambda r: {"context": r.context.replace(".", ". ")}, {}),
    "one latent value": ("control", lambda r: {"latent_value": another(r)}, {}),
    "one record an arm": ("control", lambda r: {"condition": "report"}, {}),
    "answers: 'Maybe' is not among Yes, No": ("control", lambda r: {"gold_answer": "Maybe"}, {}),
    "answers: 1 candidates have 2 tokens": (
        "control", lambda r: {"candidate_answers": (r.gold_answer,)}, {}
    ),
    "answers: two candidates are the same": (
        "flexible", lambda r: {"candidate_token_ids": (r.candidate_token_ids[0],) * 4}, {}
    ),
    "single token": ("report", lambda r: {"latent_token_id": r.control_token_ids[0]}, {}),
    "rivals: the set of other candidates is empty": ("report", lambda r: {"control_token_ids": ()}, {}),
    "rivals: .* among its own rivals": ("report", lambda r: {"control_token_ids": (r.latent_token_id,)}, {}),
    "rivals: token 99999 is outside": ("report", lambda r: {"control_token_ids": (99999,)}, {}),
    "rivals: they are not those of": ("report", lambda r: {"control_token_ids": r.control_token_ids[:2]}, {}),
    "unnamed value": ("report", lambda r: {"instruction": f"Is it {r.latent_value}?\nAnswer:"}, {}),
    "answer cue": ("report", lambda r: {"instruction": "Which language is the passage written in?"}, {}),
    "dummy": ("supplied", lambda r: {"meta": {**r.meta, "supplied": r.latent_value}}, {}),
    "label absence": ("automatic", lambda r: {}, {"passage": "pan. Polish, German, Dutch; FRENCH italian Spanish."}),
}  # fmt: skip


@pytest.mark.parametrize("invariant", BROKEN)
def test_each_invariant_broken_once(invariant):
    arm, changes, enforced = BROKEN[invariant]
    with pytest.raises(LensproofError, match=f"^language-00000-.*: {invariant}") as error:
        broken(changes, arm, **enforced)
    assert "\n" not in str(error.value)


def test_the_unbroken_instance_holds():
    broken(lambda record: {})


def test_label_symmetry():
    own = list(arms(spoken(variant="unmatched").records).values())
    assert not list(invariants.label_symmetry(own))  # a legend in two arms alone is this variant's point
    matched = [dataclasses.replace(record, meta={**record.meta, "variant": "matched"}) for record in own]
    assert [found.record.condition for found in invariants.label_symmetry(matched)] == ["flexible", "supplied"]


def test_a_dummy_that_gives_the_gold_answer():
    own = arms(spoken().records)
    twin = dataclasses.replace(own["supplied"], gold_answer=own["flexible"].gold_answer)
    assert [found.invariant for found in invariants.dummy([own["flexible"], twin])] == ["dummy"]


def test_items_that_a_story_names_unequally_often():
    record = tracked().records[0]
    story = record.context.split("Story:\n")[1]
    assert not list(invariants.label_absence([record], story))
    (found,) = invariants.label_absence([record], f"{story} Look, the {record.meta['items'][0]}!")
    assert "candidates are named unequally often" in str(found)


def test_an_instance_without_records():
    with pytest.raises(LensproofError, match="empty set"):
        invariants.enforce([], Vocabulary(tokenizer()), DEFAULT, "", "")


def test_a_context_that_is_no_token_prefix_names_the_record():
    """Known answer 14: a full stop and the line ends after it are one token."""
    open_ended = dataclasses.replace(DEFAULT, body="Passage:\n{passage}")
    assert language.build(passages(), open_ended, tokenizer(APART), count=2).records
    with pytest.raises(
        LensproofError, match="^language-00000-automatic: context prefix: .* a token spans the boundary"
    ):
        language.build(passages(), open_ended, tokenizer(JOINED), count=2)
    # Our wordings end the context in a word, which no tokenizer joins with line ends.
    assert language.build(passages(), DEFAULT, tokenizer(JOINED), count=2).records


@pytest.mark.parametrize("bos", [False, True])
def test_one_bos_where_the_model_uses_one(bos):
    """Known answer 15, on the path that records take."""
    special = tokenizer(bos=bos)
    for record in language.build(passages(), DEFAULT, special, count=2).records:
        context, rest = tokenised(special, record)
        assert (context + rest).count(special.convert_tokens_to_ids(BOS)) == bos


def test_instances_of_a_passage_are_one_cluster():
    """Known answer 33: 40 passages with 5 instances each, equal within, vary as 40 values do, not as 200."""
    records = [r for r in spoken(passages=passages(40), count=200).records if r.condition == "report"]
    member = np.unique([record.cluster for record in records], return_inverse=True)[1]
    assert np.bincount(member).tolist() == [5] * 40
    values = np.random.default_rng(0).normal(size=40)
    weights = resampling_weights(40, 500, seed=0)
    sums, counts = np.bincount(member, values[member]), np.bincount(member)
    assert np.allclose((weights @ sums) / (weights @ counts), weights @ values / weights.sum(axis=1))


# -- pairs


def of(arm, records):
    return [record for record in records if record.condition == arm]


def test_mismatched_pairs():
    records = of("flexible", spoken(count=60).records)
    pairs = mismatched(records, seed=0)
    assert [pair.target for pair in pairs] == records
    for donor, target in pairs:
        assert donor.latent_value not in target.meta["symbols"]
    published = mismatched(records, seed=0, as_published=True)
    assert all(donor.latent_value != target.latent_value for donor, target in published)
    shared = [donor.latent_value in target.meta["symbols"] for donor, target in published]
    assert any(shared)
    assert not all(shared)
    assert mismatched(records, seed=0, count=7) == pairs[:7]
    assert mismatched(records[::-1], seed=0) == pairs
    assert mismatched(records, seed=1) != pairs
    control = mismatched(of("control", spoken(count=60).records), seed=0)
    assert [pair.donor.semantic_instance_id for pair in control] == [pair.donor.semantic_instance_id for pair in pairs]


def test_counterfactual_pairs():
    records = of("flexible", spoken(count=60).records)
    pairs = counterfactual(records, seed=0)
    assert len(pairs) > 50
    for donor, target, predicted in pairs:
        assert predicted == target.meta["symbols"][donor.latent_value]
        assert predicted not in (target.gold_answer, donor.gold_answer)
    for pair in pairs:
        assert len(pair.distractors) == 2
        assert {pair.predicted, pair.target.gold_answer, *pair.distractors} == set(pair.target.candidate_answers)
    published = counterfactual(records, seed=0, as_published=True)
    assert any(pair.predicted == pair.donor.gold_answer for pair in published)
    assert all(pair.predicted != pair.target.gold_answer for pair in published)


def test_pairs_that_cannot_be_built():
    records = of("flexible", spoken(count=40).records)
    same = [record for record in records if record.latent_value == records[0].latent_value]
    for build in (mismatched, counterfactual):
        with pytest.raises(LensproofError, match="empty set"):
            build(same, seed=0)
        with pytest.raises(LensproofError, match="pairs are of one arm, not of control, report"):
            build([*of("control", spoken().records), *of("report", spoken().records)], seed=0)
    with pytest.raises(LensproofError, match="language-00000-flexible: `symbols` in its meta is not the table"):
        counterfactual([dataclasses.replace(records[0], meta={})], seed=0)


# -- sets


def test_sets_are_those_that_the_configuration_knows():
    assert list(sets.SETS) == list(get_args(RecordSet))
    for name, chosen in sets.SETS.items():
        records = sets.build(name, tokenizer(), passages=passages(), count=4, seed=0).records
        assert {record.family for record in records} == {chosen.family}
        assert {record.meta["variant"] for record in records} == {chosen.variant}
        assert {record.meta["wording"] for record in records} == {chosen.wording}
        assert {record.meta.get("swaps", 3) for record in records} == {chosen.swaps}
    with pytest.raises(LensproofError, match="there is no set of records 'lookup' .there is language, "):
        sets.build("lookup", tokenizer(), count=1, seed=0)
    with pytest.raises(LensproofError, match="tracking needs a default wording of the tracking family, which is not"):
        sets.build("tracking", tokenizer(), count=1, seed=0, wordings={"language": LANGUAGE})
    with pytest.raises(LensproofError, match="language needs passages"):
        sets.build("language", tokenizer(), count=1, seed=0)
