"""Documents to sequences: one length, one document, one role, BOS where the model uses it (known answer 15)."""

from __future__ import annotations

import pandas as pd
import pytest

from lensproof.checkpoints.load import encode
from lensproof.config import RandomSource
from lensproof.corpora.sequences import make, take, tokens
from lensproof.errors import LensproofError
from lensproof.specimens.tiny import random_tokenizer

SPLIT = {"calibration": 0.5, "lens": 0.2, "test": 0.3}


def tokenizer(architecture):
    return random_tokenizer(RandomSource(kind="random", architecture=architecture))


@pytest.fixture
def documents():
    texts = [f"Document {n} " + "of words and more words " * (n % 4 + 1) for n in range(20)]
    return pd.DataFrame({"document": range(20), "part": "all", "text": texts})


@pytest.mark.parametrize(("architecture", "bos"), [("llama", False), ("gemma3_text", True)])
def test_exactly_one_bos_where_the_model_uses_one(documents, architecture, bos):
    special = tokenizer(architecture)
    table = make(documents, special, length=16, split=SPLIT)
    for ids in table["tokens"]:
        assert len(ids) == 16
        assert list(ids).count(special.bos_token_id) == bos
        assert (ids[0] == special.bos_token_id) == bos
    assert encode(special, "some words").count(special.bos_token_id) == bos


def test_each_sequence_is_inside_its_document(documents):
    special = tokenizer("llama")
    for row in make(documents, special, length=16, split=SPLIT).itertuples():
        assert special.decode(row.tokens) in documents["text"][row.document]


def test_a_document_plays_one_role_whatever_the_length(documents):
    special = tokenizer("llama")
    roles = [
        make(documents, special, length=length, split=SPLIT).groupby("document")["role"].agg(set) for length in (8, 16)
    ]
    for role in roles:
        assert (role.map(len) == 1).all()
    shared = roles[0].index.intersection(roles[1].index)
    assert (roles[0][shared] == roles[1][shared]).all()


def test_documents_come_in_turn(documents):
    table = make(documents, tokenizer("llama"), length=16, split=SPLIT)
    for _, role in table.groupby("role"):
        turns = role.sort_values("rank").groupby("document").cumcount()
        assert turns.is_monotonic_increasing


def test_the_order_of_documents_in_the_file_does_not_matter(documents):
    special = tokenizer("llama")
    one = make(documents, special, length=16, split=SPLIT)
    other = make(documents.iloc[::-1], special, length=16, split=SPLIT)
    pd.testing.assert_frame_equal(one, other)
    assert not make(documents, special, length=16, split=SPLIT, seed=1)["document"].equals(one["document"])


def test_roles_by_part(documents):
    parts = documents.assign(part=["train"] * 12 + ["test"] * 8)
    split = {"calibration": "train", "lens": "train", "test": "test"}
    documents = make(parts, tokenizer("llama"), length=16, split=split).groupby("role")["document"].agg(set)
    assert min(documents["test"]) >= 12
    assert max(documents["calibration"] | documents["lens"]) < 12
    assert not documents["calibration"] & documents["lens"]


def test_asking_for_more_than_there_is(documents):
    table = make(documents, tokenizer("llama"), length=16, split=SPLIT)
    assert tokens(take(table, "test", 3)).shape == (3, 16)
    assert take(table, "test", 2, first=1)["rank"].to_list() == [1, 2]
    with pytest.raises(LensproofError, match=r"sequences for test, 1000 are asked for"):
        take(table, "test", 1000)
