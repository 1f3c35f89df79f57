"""Concepts that are too weak for entities lead a reader of a part as if the rest were not there."""

from random import Random
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.security.readers import acting_as, readers
from tests.sql.ingest import new_corpus, put, rows, work

# In one sentence weak; repeated in a document, entities.
WEAK = ("hopeful promise", "quiet agreement", "joyful surprise", "careful answer", "gentle reminder", "bold idea")
NAMES = ("Bob Stone", "Ada Lovelace", "Leeds", "Kestrel engine")
QUESTIONS = (
    "Who gave a hopeful promise to Bob Stone?",
    "Which bold idea came with the quiet agreement of Leeds?",
    "Did the gentle reminder about the Kestrel engine bring a joyful surprise?",
)


def texts(seed: int, count: int, prefix: str) -> dict[str, str]:
    random = Random(seed)
    documents = {}
    for number in range(count):
        weak, other = random.sample(WEAK, 2)
        sentences = [f"A {weak} of {random.choice(NAMES)} met a {other} of {random.choice(NAMES)}."]
        if random.random() < 0.4:
            sentences.append(f"The {weak} was kept. The {weak} was {random.choice(('old', 'new'))}.")
        documents[f"{prefix}{number:02}"] = " ".join(sentences)
    return documents


def found(db: Any, corpus: str, filter_: dict[str, Any]) -> list[Any]:
    sql = (
        "SELECT source_key, score, explain #>> '{pagerank,through,key}'"
        " FROM graphrag.search(%s, %s, mode => %s, top_k => 20, filter => %s)"
    )
    return [
        rows(db, sql, question, corpus, mode, Jsonb(filter_)) for question in QUESTIONS for mode in ("ppr", "hybrid")
    ]


def turned(text: str) -> str:
    """The same words in another order: other concepts, the same statistics of BM25, which are of the whole corpus."""
    # With a capital within a sentence an article may be a name, and counts.
    text = text.replace("A ", "a ").replace("The ", "the ")
    return ". ".join(" ".join(reversed(sentence.split())) for sentence in text.split("."))


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(2))
def test_a_part_is_walked_as_if_the_rest_had_other_concepts(module_db: Database, seed: int) -> None:
    visible, hidden = texts(seed, 24, "v"), texts(100 + seed, 40, "h")
    corpora = []
    for others in (hidden, {key: turned(text) for key, text in hidden.items()}):
        corpora.append(new_corpus(module_db))
        for key, text in (visible | others).items():
            put(module_db, corpora[-1], key, text, metadata={"team": key[0]})
        work(module_db)
    of_part = found(module_db, corpora[1], {"team": "v"})
    assert all(of_part)
    # Numbers of entities decide in which order floats are added.
    expected = [[(key, pytest.approx(score, abs=1e-5), through) for key, score, through in each] for each in of_part]
    assert found(module_db, corpora[0], {}) != found(module_db, corpora[1], {})
    for corpus in corpora:
        assert found(module_db, corpus, {"$source_key": {"$in": sorted(visible)}}) == expected
        with readers(module_db, 1) as (role,):
            module_db.execute("SELECT graphrag.protect(%s, %s)", [corpus, "metadata ->> 'team' = 'v'"])
            for memory in ("0", "64MB"):
                module_db.execute(f"SET graphrag.session_memory = '{memory}'".encode())
                try:
                    with acting_as(module_db, role):
                        for _ in range(3):
                            assert found(module_db, corpus, {}) == expected
                finally:
                    module_db.execute("RESET graphrag.session_memory")
