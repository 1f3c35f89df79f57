"""An answer does not depend on the order in which PostgreSQL reads rows: a session's plans change as it goes on asking."""

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql.ingest import new_corpus, put, search, work

NAMES = ("王小明", "李大华", "北京大学", "清华大学", "量子计算机", "中国银行", "张江实验室", "长城")
QUESTION = "王小明给李大华写了什么？谁访问了北京大学？"
PLANS = ("enable_nestloop", "enable_hashjoin, enable_nestloop", "enable_hashjoin, enable_mergejoin", "enable_seqscan")
COUNT = 24


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    """Documents whose names are merged, so that a chunk mentions an entity several times, not equally often."""
    name = new_corpus(module_db)
    for n in range(COUNT):
        a, b, c, d = (NAMES[m % len(NAMES)] for m in (n, n ^ 1, 5 * n, n + 2))
        text = f"{a}给{b}写了第{n}封信。{c}访问了{d}。{a}的研究在上海进行。"
        put(module_db, name, f"{n:02}", text, metadata={"team": "ab"[n % 2]})
    work(module_db)
    for first, second in (NAMES[0:2], NAMES[2:4], NAMES[4:6]):
        module_db.execute("SELECT graphrag.merge_entities(%s, %s, %s)", [[second], first, name])
    work(module_db)
    return name


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", ["ppr", "hybrid"])
@pytest.mark.parametrize("filter_", [None, {"team": "a"}], ids=["whole", "part"])
def test_an_answer_is_the_same_by_any_plan(
    module_db: Database, corpus: str, mode: str, filter_: dict[str, str] | None
) -> None:
    answers = []
    for settings in ("", *PLANS):
        with psycopg.connect(module_db.url, autocommit=True) as session:
            session.execute("SET graphrag.session_memory = '0'")
            for setting in filter(None, settings.split(", ")):
                session.execute(f"SET {setting} = off".encode())
            arguments = {} if filter_ is None else {"filter": Jsonb(filter_)}
            results = search(session, QUESTION, corpus, mode, top_k=COUNT, **arguments)
            answers.append([(row["source_key"], row["score"]) for row in results])
    assert len(answers[0]) > COUNT // 3
    for answer in answers[1:]:
        assert answer == [(key, pytest.approx(score, abs=2e-6)) for key, score in answers[0]]
