"""Filters, as_of and offset in every mode, for every kind of reader: rows of the documents kept, however it is said."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from pg_graphrag.ground.mode_names import MODES
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.security.readers import acting_as, readers
from tests.sql.ingest import Connection, rows, search, searched_corpus, work
from tests.sql.test_one_answer import COMMUNITY_MODES

NAMES = (
    "Ada Lovelace",
    "Alan Turing",
    "Bletchley Park",
    "Joan Clarke",
    "Grace Hopper",
    "Charles Babbage",
    "Luigi Menabrea",
)
QUERY = "What did Ada Lovelace write to Alan Turing, and who visited Bletchley Park?"
COUNT = 42
NOW = "2024-06-01"
PAGE = 4

Document = dict[str, Any]
DOCUMENTS: list[Document] = [
    {
        "source_key": f"{n:02}",
        "content": f"{NAMES[n % 7]} wrote letter {n} to {NAMES[n * 3 % 7]}. {NAMES[n * 5 % 7]} visited {NAMES[(n + 2) % 7]}.",
        "metadata": {"n": n, "team": "ab"[n % 2]} | ({"lang": ("de", "en", "ja")[n % 3]} if n % 5 else {}),
        "valid_from": ("2020-01-01", "2024-01-01", "2025-01-01", None)[n % 4],
    }
    for n in range(COUNT)
]
CHOSEN = {f"{n:02}" for n in range(0, COUNT, 3)}


def is_valid(document: Document) -> bool:
    return (document["valid_from"] or "") <= NOW


# A filter, the option as_of, and which documents they keep. The numbers of documents are filled in.
RESTRICTIONS: dict[str, tuple[dict[str, Any], str | None, Callable[[Document], bool]]] = {
    "none": ({}, None, lambda d: True),
    "containment": ({"team": "a"}, None, lambda d: d["metadata"]["team"] == "a"),
    "range": ({"n": {"$gte": 10, "$lt": 35}}, None, lambda d: 10 <= d["metadata"]["n"] < 35),
    "list": ({"lang": {"$in": ["de", "en"]}}, None, lambda d: d["metadata"].get("lang") in ("de", "en")),
    "existence": ({"lang": {"$exists": False}}, None, lambda d: "lang" not in d["metadata"]),
    "or, not": (
        {"$or": [{"n": {"$lt": 5}}, {"$not": {"lang": {"$prefix": "d"}}}]},
        None,
        lambda d: d["metadata"]["n"] < 5 or d["metadata"].get("lang") != "de",
    ),
    "keys": ({"$source_key": {"$prefix": "1"}}, None, lambda d: d["source_key"][0] == "1"),
    "numbers": ({"$ids": []}, None, lambda d: d["source_key"] in CHOSEN),
    "relation": ({"$relation": "public.chosen_documents"}, None, lambda d: d["source_key"] in CHOSEN),
    "moment": ({}, NOW, is_valid),
    "moment in a filter": ({"team": "b", "$as_of": NOW}, None, lambda d: d["metadata"]["team"] == "b" and is_valid(d)),
    "filter and moment": ({"n": {"$lt": 30}}, NOW, lambda d: d["metadata"]["n"] < 30 and is_valid(d)),
    "nothing": ({"team": "c"}, None, lambda d: False),
}
# What protect() says, a setting of the session, and which documents that shows.
PERMISSIONS: dict[str, tuple[str | None, str | None, Callable[[Document], bool]]] = {
    "owner": (None, None, lambda d: True),
    "reader": (None, None, lambda d: True),
    "protected": ("(metadata ->> 'n')::int % 3 <> 1", None, lambda d: d["metadata"]["n"] % 3 != 1),
    "claims": ("metadata ->> 'team' = current_setting('app.team', true)", "a", lambda d: d["metadata"]["team"] == "a"),
    "nothing visible": ("metadata ->> 'team' = current_setting('app.team', true)", "", lambda d: False),
}


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    name = searched_corpus(module_db, communities=True)
    for document in DOCUMENTS:
        module_db.execute(
            "INSERT INTO graphrag.documents (corpus, source_key, content, metadata, valid_from)"
            " VALUES (%s, %s, %s, %s, %s)",
            [name, *(Jsonb(each) if isinstance(each, dict) else each for each in document.values())],
        )
    work(module_db)
    module_db.execute(
        "CREATE TABLE public.chosen_documents (source_key text); GRANT SELECT ON public.chosen_documents TO PUBLIC"
    )
    module_db.execute("INSERT INTO public.chosen_documents SELECT unnest(%s::text[])", [sorted(CHOSEN)])
    return name


@pytest.fixture(scope="module")
def of_keys(module_db: Database, corpus: str) -> Callable[[str, set[str]], list[tuple[Any, ...]]]:
    """The owner's answer by a mode of the documents with these keys: asked once."""

    @cache
    def ask(mode: str, kept: tuple[str, ...]) -> list[tuple[Any, ...]]:
        return answer(module_db, corpus, mode, {"$source_key": {"$in": list(kept)}})

    return lambda mode, kept: ask(mode, tuple(sorted(kept)))


@contextmanager
def asking(db: Database, corpus: str, permission: str) -> Iterator[None]:
    """A part of the session as who has this permission."""
    condition, team, _ = PERMISSIONS[permission]
    if permission == "owner":
        yield
        return
    with readers(db, 1) as (role,):
        if condition is not None:
            db.execute("SELECT graphrag.protect(%s, %s)", [corpus, condition])
        try:
            with acting_as(db, role):
                db.execute(sql.SQL("SET app.team = {}").format(team or ""))
                yield
        finally:
            db.execute("RESET app.team")
            if condition is not None:
                db.execute("SELECT graphrag.unprotect(%s)", [corpus])


def answer(db: Connection, corpus: str, mode: str, filter_: dict[str, Any], **arguments: Any) -> list[tuple[Any, ...]]:
    options = {name: arguments.pop(name) for name in ("as_of", "offset") if arguments.get(name) is not None}
    arguments.pop("as_of", None)
    results = search(db, QUERY, corpus, mode, filter=filter_, options=options, **{"top_k": 100, **arguments})
    return [(row["source_key"], row["content"], round(row["score"], 5)) for row in results]


@pytest.mark.sample(10)
@pytest.mark.parametrize("permission", PERMISSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_an_answer_is_of_the_documents_kept(
    module_db: Database, corpus: str, of_keys: Callable[[str, set[str]], Any], mode: str, permission: str
) -> None:
    visible = {d["source_key"] for d in DOCUMENTS if PERMISSIONS[permission][2](d)}
    ids = dict(rows(module_db, "SELECT source_key, id FROM graphrag.documents WHERE corpus = %s", corpus))
    kept = {
        name: visible & {d["source_key"] for d in DOCUMENTS if keeps(d)} for name, (_, _, keeps) in RESTRICTIONS.items()
    }
    expected = {name: of_keys(mode, some) for name, some in kept.items()}
    closed = mode in COMMUNITY_MODES and visible != set(ids)
    with asking(module_db, corpus, permission):
        turns = MODES.index(mode) + list(PERMISSIONS).index(permission)
        for turn, (name, (filter_, as_of, _)) in enumerate(RESTRICTIONS.items(), turns):
            filter_ = {"$ids": [ids[key] for key in sorted(CHOSEN)]} if name == "numbers" else filter_
            whole = answer(module_db, corpus, mode, filter_, as_of=as_of)
            assert {row[0] for row in whole} <= kept[name], name
            if not closed:
                assert whole == expected[name], name
            if mode in ("naive", "hybrid"):
                assert {row[0] for row in whole} == kept[name], name
            # Three pages take turns; test_paging.py has them all.
            at = turn % 3 * PAGE
            page = answer(module_db, corpus, mode, filter_, as_of=as_of, offset=at, top_k=PAGE)
            assert page == whole[at : at + PAGE], name


def test_every_mode_has_an_answer_here(module_db: Database, corpus: str) -> None:
    assert all(answer(module_db, corpus, mode, {"team": "a"}, as_of=NOW) for mode in MODES)
