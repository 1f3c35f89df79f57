"""graphrag.embed: the local model as a SQL function."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import rows, searched_corpus, value

# Of one word to some hundred, of several scripts, some of equal length and some cut within a name.
MIXED = [
    *("x", "", "Ada", "Bob Stone of Acme Rockets designed the Kestrel engine in Oslo.", "Maria Lopez wrote a letter."),
    *(
        "华为和腾讯的张伟在北京。",
        "東京の田中さんはソニーで働く。" * 8,
        "Der Bericht von Lena Sommer ging an Siemens in Ulm.",
    ),
    *("Support\nTim Cook of Apple met Ann Lee of Sony.", "- Frank Wiles\n- Anna Makarudze\n", "the meeting was moved"),
    *("Ada Lovelace wrote to Charles Babbage. "[start:] * count for start, count in ((0, 1), (1, 1), (4, 2), (9, 3))),
    *(
        "Charles Babbage met Ada in London. "[start:] * count
        for start, count in ((0, 5), (20, 8), (0, 13), (2, 1), (8, 2))
    ),
]
# Vectors and names of texts that are read together, and each alone.
READ = """
DO LANGUAGE plpython3u $do$
import json
from pg_graphrag.llm.embedding import local_embedder
model = local_embedder(plpy.execute("SELECT current_setting('tests.model') AS model")[0]["model"])
texts = json.loads(plpy.execute("SELECT current_setting('tests.texts') AS texts")[0]["texts"])
def read(texts):
    made = {}
    for places, vectors, readings in model.tag_batches(texts):
        for place, vector, reading in zip(places.tolist(), vectors.tolist(), readings, strict=True):
            made[place] = vector, [list(name) for name in reading.names]
    return [made[place] for place in range(len(texts))]
plan = plpy.prepare("SELECT set_config('tests.made', $1, false)", ["text"])
plpy.execute(plan, [json.dumps([read(texts), [read([text])[0] for text in texts]])])
$do$
"""


pytestmark = pytest.mark.usefixtures("real_encoder")


def test_vectors_are_those_of_the_reference_model(module_db: Database, shared_data: Path) -> None:
    with (shared_data / "minilm" / "reference.jsonl").open() as lines:
        given = [json.loads(line) for line in lines]
    for item in given:
        vector = np.array(value(module_db, "SELECT graphrag.embed(%s)::real[]", item["text"]))
        assert float(vector @ np.array(item["embedding"])) >= 0.9999


@pytest.mark.parametrize("text", ["", " ", "x", "👩‍💻", "עברית", "a" * 100_000, "$$ {} '\\"])
def test_any_text_has_a_vector_of_length_1(module_db: Database, text: str) -> None:
    vector = np.array(value(module_db, "SELECT graphrag.embed(%s)::real[]", text))
    assert vector.shape == (384,)
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5)


def test_null_has_no_vector(module_db: Database) -> None:
    assert value(module_db, "SELECT graphrag.embed(NULL)") is None


def test_the_default_corpus_need_not_exist(module_db: Database) -> None:
    assert rows(module_db, "SELECT FROM graphrag.corpora WHERE name = 'default'") == []
    assert value(module_db, "SELECT vector_dims(graphrag.embed('x'))") == 384
    name = searched_corpus(module_db)
    assert value(module_db, "SELECT graphrag.embed('x') = graphrag.embed('x', %s)", name) is True


def test_one_model_answers_whatever_stands_beside_a_text(module_db: Database) -> None:
    alone = rows(module_db, "SELECT graphrag.embed(t)::real[] FROM (VALUES ('one'), ('two')) AS v (t)")
    again = rows(
        module_db, "SELECT graphrag.embed(t)::real[] FROM (VALUES ('two'), ('a much longer text'), ('one')) AS v (t)"
    )
    assert alone[0] == again[2]
    assert alone[1] == again[0]


@pytest.mark.sample(1)
@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2", "multilingual-e5-small"])
def test_texts_of_mixed_lengths_have_the_vectors_and_names_that_each_has_alone(module_db: Database, model: str) -> None:
    with Database.open(module_db.url) as session:
        session.execute(
            "SELECT set_config('tests.model', %s, false), set_config('tests.texts', %s, false)",
            [model, json.dumps(MIXED)],
        )
        session.execute(READ)
        together, alone = json.loads(value(session, "SHOW tests.made"))
    assert len(together) == len(MIXED) and sum(bool(names) for _, names in together) > 10
    for text, (vector, names), (own_vector, own_names) in zip(MIXED, together, alone, strict=True):
        assert names == own_names, text
        assert vector == own_vector, text
