"""Writes reports of communities after the communities are found: by a model if the corpus has one for reports.

It goes bottom-up, level by level, and writes a report again only if its input has changed.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Vectors
from pg_graphrag.index.community.report import Community, Input, Report, content_hash, extract, read_inputs, writes
from pg_graphrag.index.community.writing import input_hash, write
from pg_graphrag.index.extraction.summaries import worst_fault
from pg_graphrag.index.indexing.extracting import weight
from pg_graphrag.index.indexing.item_vectors import embed
from pg_graphrag.llm.embedding.vector_text import vector_texts, vectors_at_once
from pg_graphrag.llm.endpoints.faults import ItemFault, Unembeddable
from pg_graphrag.llm.endpoints.gateway import Gateway
from pg_graphrag.llm.endpoints.providers import load_provider
from pg_graphrag.server import Database, Row, columns, slices
from pg_graphrag.server.corpus.corpora import Corpus, corpus_by_id
from pg_graphrag.server.corpus.spaces import Space, of_state, spaces
from pg_graphrag.server.queue import Job, note, queue
from pg_graphrag.text.languages import REGCONFIG
from pg_graphrag.text.tokenizers import tokenizer
from pg_graphrag.text.words.search_terms import lexical, query_languages

# Reports put together in one step, and rows of a kind that each looks at.
BATCH = 200
ROWS = 60
# The same where a model writes, and where its answers take hours.
WRITTEN = 32
BY_BATCH = 2000
WRITTEN_ROWS = 400


def write_reports(db: Database, corpus: Corpus, job: Job) -> bool:
    """Serve a job of kind reports: one batch of due reports, or of missing vectors; True: nothing is left. Commits.

    Raises ProviderFault, BudgetReached, Waiting after the reports that came have been written; the rest stays due.
    """
    model = writes(corpus.options)
    communities = _due_communities(db, corpus.id, _batch(db, corpus) if model else BATCH)
    if not communities:
        return _embed_rest(db, corpus, job)
    sources = read_inputs(db, communities, WRITTEN_ROWS if model else ROWS, children=model)
    hashes = _hashes(db, [source.community_id for source in sources])
    db.rollback()
    results: list[tuple[Input, Report | None, str]]
    faults: list[GraphRAGError] = []
    if model:
        results, faults = _write_by_model(db, corpus, sources, hashes)
    else:
        results = [(source, report, content_hash(report)) for source in sources for report in [extract(source)]]
    if results:
        _store(db, corpus, results, hashes)
    if faults:
        raise worst_fault(faults)
    return False


def input_hashes(db: Database, corpus: Corpus, communities: Sequence[Community]) -> dict[int, str]:
    """Return the hashes that reports on communities would have if they were written now."""
    model = writes(corpus.options)
    count = tokenizer(corpus.tokenizer, corpus.tokenizer_fingerprint).count
    hashes = {}
    for part in slices(communities, WRITTEN if model else BATCH):
        for source in read_inputs(db, part, WRITTEN_ROWS if model else ROWS, children=model):
            hash_ = input_hash(corpus.options, source, count) if model else content_hash(extract(source))
            hashes[source.community_id] = hash_
    return hashes


def hash_reports(db: Database, corpus: Corpus) -> bool:
    """Give imported reports the hash of the input that the corpus would write them from; return whether there were any.

    They stay until that input changes. Hashing takes a second for some hundred reports, so the corpus is locked only to store
    the result; changes in between count as imported.
    """
    communities = _with_reports(db, corpus.id, "r.input_hash = ''")
    if not communities:
        return False
    hashes = input_hashes(db, corpus, communities)
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    db.query(
        "UPDATE graphrag.community_reports r SET input_hash = u.hash"
        "  FROM unnest($1, $2) AS u (id, hash) WHERE r.community_id = u.id AND r.input_hash = ''",
        ["int8[]", "text[]"],
        [list(hashes), list(hashes.values())],
    )
    return True


def drop_outdated(db: Database, corpus: Corpus) -> int:
    """Delete the reports that would be different now, and queue them again; return how many.

    Reports that stay were made of existing items alone. The corpus is locked.
    """
    outdated_ids: list[int] = []
    # From below: the reports of a level are input of the level above.
    for _, communities in groupby(_with_reports(db, corpus.id, "true"), key=attrgetter("level")):
        current = input_hashes(db, corpus, [*communities])
        stored = _hashes(db, [*current])
        level_ids = [number for number, hash_ in current.items() if stored.get(number) != hash_]
        db.query("DELETE FROM graphrag.community_reports r WHERE r.community_id = ANY ($1)", ["int8[]"], [level_ids])
        outdated_ids += level_ids
    if outdated_ids:
        db.query("UPDATE graphrag.communities SET report_due = true WHERE id = ANY ($1)", ["int8[]"], [outdated_ids])
        db.query("SELECT graphrag._project_communities($1, $2)", ["int4", "int8[]"], [corpus.id, outdated_ids])
        queue(db, "reports", corpus.id)
    return len(outdated_ids)


def _batch(db: Database, corpus: Corpus) -> int:
    return BY_BATCH if load_provider(db, corpus.options.llm.of("report")[0]).batch else WRITTEN


def _write_by_model(
    db: Database, corpus: Corpus, sources: Sequence[Input], hashes: dict[int, str]
) -> tuple[list[tuple[Input, Report | None, str]], list[GraphRAGError]]:
    """Have a model write the reports whose input has changed; return them (None: unchanged), and the faults of the rest.


    Where the model's answer is unusable, the report is put together without a model, until its input changes.
    """
    count = tokenizer(corpus.tokenizer, corpus.tokenizer_fingerprint).count
    results: list[tuple[Input, Report | None, str]] = []
    requests: list[tuple[Input, str]] = []
    for source in sources:
        hash_ = input_hash(corpus.options, source, count)
        if hashes.get(source.community_id) == hash_:
            results.append((source, None, hash_))
        else:
            requests.append((source, hash_))
    tasks = [write(corpus.options, source, count) for source, _ in requests]
    faults: list[GraphRAGError] = []
    for (source, hash_), result in zip(
        requests, Gateway(db, corpus, worker=True, writes=True).run(tasks) if tasks else [], strict=True
    ):
        if isinstance(result, GraphRAGError) and not isinstance(result, ItemFault):
            faults.append(result)
        else:
            results.append((source, extract(source) if isinstance(result, ItemFault) else result, hash_))
    return results, faults


_COMMUNITY = "SELECT c.id, c.level, c.size, c.xmin::text AS version FROM graphrag.communities c"


def _with_reports(db: Database, corpus_id: int, condition: str) -> list[Community]:
    """Return communities that have a report, from the deepest level up."""
    rows = db.query(
        f"{_COMMUNITY} JOIN graphrag.community_reports r ON r.community_id = c.id"
        f" WHERE c.corpus_id = $1 AND {condition} ORDER BY c.level DESC, c.id",
        ["int4"],
        [corpus_id],
    )
    return [Community(**row) for row in rows]


def _due_communities(db: Database, corpus_id: int, limit: int) -> list[Community]:
    """Return the next due communities of the deepest level that has some: their reports are input of the level above."""
    rows = db.query(
        f"{_COMMUNITY} WHERE c.corpus_id = $1 AND c.report_due AND c.level ="
        "       (SELECT pg_catalog.max(x.level) FROM graphrag.communities x WHERE x.corpus_id = $1 AND x.report_due)"
        " ORDER BY c.id LIMIT $2",
        ["int4", "int4"],
        [corpus_id, limit],
    )
    return [Community(**row) for row in rows]


# Scalar subqueries: an anti-join of a few ids may hash a whole table for each report.
_HASHES = """
SELECT r.community_id, r.input_hash
  FROM graphrag.community_reports r
 WHERE r.community_id = ANY ($1)
   AND NOT EXISTS (SELECT FROM pg_catalog.jsonb_array_elements(r.findings) AS f (finding), LATERAL (
           SELECT FROM pg_catalog.jsonb_array_elements_text(f.finding -> 'entity_ids') AS t (id)
            WHERE (SELECT e.id FROM graphrag.entities e WHERE e.id = t.id::bigint) IS NULL
           UNION ALL
           SELECT FROM pg_catalog.jsonb_array_elements_text(f.finding -> 'relationship_ids') AS t (id)
            WHERE (SELECT x.id FROM graphrag.relationships x WHERE x.id = t.id::bigint) IS NULL
           UNION ALL
           SELECT FROM pg_catalog.jsonb_array_elements_text(f.finding -> 'chunk_ids') AS t (id)
            WHERE (SELECT c.id FROM graphrag.chunks c WHERE c.id = t.id::bigint) IS NULL) gone)
"""


def _hashes(db: Database, ids: list[int]) -> dict[int, str]:
    """Return the hashes of reports all of whose references exist: an imported one refers to more than its hash covers."""
    return {row["community_id"]: row["input_hash"] for row in db.query(_HASHES, ["int8[]"], [ids])}


def _store(
    db: Database, corpus: Corpus, results: Sequence[tuple[Input, Report | None, str]], hashes: dict[int, str]
) -> None:
    """Write the reports whose hash differs from the stored one, with their vectors, and mark all as done. Commits."""
    changed_reports = [
        (source, report, hash_)
        for source, report, hash_ in results
        if report is not None and hashes.get(source.community_id) != hash_
    ]
    space = of_state(spaces(db, corpus.id), "active")
    text_by_id = {source.community_id: f"{report.title}\n{report.summary}" for source, report, _ in changed_reports}
    kept_ids = _embedded_alike(db, space, text_by_id)
    db.rollback()
    vectors = _vectors(db, corpus, space, [text for number, text in text_by_id.items() if number not in kept_ids])
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    if (current := corpus_by_id(db, corpus.id)) is None or current.forgets != corpus.forgets:
        # The texts are from before forget(): the reports stay due.
        db.commit()
        return
    if changed_reports:
        # Again, under the lock: who writes reports has it.
        kept_ids = _embedded_alike(db, space, text_by_id)
        write_rows(db, corpus, [(source.community_id, report, hash_) for source, report, hash_ in changed_reports])
        items = [(number, text) for number, text in text_by_id.items() if number not in kept_ids]
        _write_vectors(db, space, items, vectors)
        db.query(
            "SELECT graphrag._project_communities($1, $2)",
            ["int4", "int8[]"],
            [corpus.id, [source.community_id for source, _, _ in changed_reports]],
        )
        if writes(corpus.options):  # input of the reports one level up
            db.query(
                "UPDATE graphrag.communities p SET report_due = true FROM graphrag.communities c"
                " WHERE c.id = ANY ($1) AND p.id = c.parent_id AND NOT p.report_due",
                ["int8[]"],
                [[source.community_id for source, _, _ in changed_reports]],
            )
    # Unless the community has changed meanwhile: then it stays due.
    db.query(
        "UPDATE graphrag.communities c SET report_due = false FROM unnest($1, $2) AS u (id, version)"
        " WHERE c.id = u.id AND c.xmin::text = u.version",
        ["int8[]", "text[]"],
        columns([(source.community_id, source.version) for source, _, _ in results]),
    )
    db.commit()


def write_rows(db: Database, corpus: Corpus, reports: Sequence[tuple[int, Report, str]]) -> None:
    """Store reports (community id, report, input hash), in place of stored ones; the corpus is locked."""
    count = tokenizer(corpus.tokenizer, corpus.tokenizer_fingerprint).count
    rows = []
    for number, report, hash_ in reports:
        content = report.content
        language = corpus.options.language
        language = query_languages(content)[0] if language == "auto" else language
        texts = (report.title, report.summary, report.findings_json(), report.rating, report.rating_explanation)
        stored_values = (content, count(content), report.model, hash_, "pg_catalog." + REGCONFIG[language])
        rows.append((number, *texts, *stored_values, lexical(content, language)))
    db.query(
        "INSERT INTO graphrag.community_reports AS r (corpus_id, community_id, title, summary, findings, rating,"
        " rating_explanation, content, token_count, model, input_hash, tsv)"
        " SELECT $1, u.id, u.title, u.summary, u.findings, u.rating, u.why, u.content, u.tokens, u.model, u.hash,"
        "        pg_catalog.to_tsvector(u.config::regconfig, u.lexical)"
        "   FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
        "        AS u (id, title, summary, findings, rating, why, content, tokens, model, hash, config, lexical)"
        "  WHERE EXISTS (SELECT FROM graphrag.communities c WHERE c.id = u.id)"
        " ON CONFLICT (community_id) DO UPDATE SET (title, summary, findings, rating, rating_explanation, content,"
        " token_count, model, input_hash, tsv, written_at) = (EXCLUDED.title, EXCLUDED.summary, EXCLUDED.findings,"
        " EXCLUDED.rating, EXCLUDED.rating_explanation, EXCLUDED.content, EXCLUDED.token_count, EXCLUDED.model,"
        " EXCLUDED.input_hash, EXCLUDED.tsv, EXCLUDED.written_at)",
        ["int4", "int8[]", "text[]", "text[]", "jsonb[]", "float8[]", "text[]", "text[]", "int4[]", *["text[]"] * 4],
        [corpus.id, *columns(rows)],
    )


def _embedded_alike(db: Database, space: Space | None, text_by_id: dict[int, str]) -> set[int]:
    """Return which communities have a vector in a space already, of just this text: what a report says may change below."""
    if space is None:
        return set()
    rows = db.query(
        "SELECT r.community_id AS id, r.title || E'\\n' || r.summary AS text FROM graphrag.community_reports r"
        "  JOIN graphrag.report_vectors v ON v.space_id = $1 AND v.community_id = r.community_id"
        " WHERE r.community_id = ANY ($2)",
        ["int4", "int8[]"],
        [space.id, list(text_by_id)],
    )
    return {row["id"] for row in rows if row["text"] == text_by_id[row["id"]]}


def _vectors(db: Database, corpus: Corpus, space: Space | None, texts: list[str]) -> dict[str, Vectors]:
    """Return {text: vector}; a text without one gets it later. Commits."""
    return {} if space is None else embed(db, corpus, space.embedding, texts)[0]


def _write_vectors(
    db: Database, space: Space | None, items: Sequence[tuple[int, str]], vectors: dict[str, Vectors]
) -> None:
    """Store vectors of stored reports; the corpus is locked."""
    ids = [number for number, _ in items]
    db.query("DELETE FROM graphrag.report_vectors v WHERE v.community_id = ANY ($1)", ["int8[]"], [ids])
    embedded = [(number, text) for number, text in items if text in vectors]
    if space is None:
        return
    for part in slices(embedded, vectors_at_once(space.embedding.dimensions)):
        db.query(
            f"INSERT INTO graphrag.report_vectors (space_id, community_id, embedding)"
            f" SELECT $1, u.id, u.vector::{db.vector_type} FROM unnest($2, $3) AS u (id, vector)"
            "  WHERE EXISTS (SELECT FROM graphrag.community_reports r WHERE r.community_id = u.id)"
            "    AND EXISTS (SELECT FROM graphrag.embedding_spaces s WHERE s.id = $1)",
            ["int4", "int8[]", "text[]"],
            [space.id, [number for number, _ in part], vector_texts([vectors[text] for _, text in part])],
        )


def _embed_rest(db: Database, corpus: Corpus, job: Job) -> bool:
    """Embed reports without a vector in the active space: a new model was swapped in, or a call failed.

    Those whose text has none are found by their words; the job notes them in its payload ({skipped: communities}).
    """
    space = of_state(spaces(db, corpus.id), "active")
    if space is None:
        return True
    skipped_ids = set(job.payload.get("skipped", ()))
    rows: list[Row] = []
    last = 0
    while not rows:
        page = _without_vector(db, corpus, space, last)
        if not page:
            break
        rows = [row for row in page if row["community_id"] not in skipped_ids and space.embedding.embeds(row["text"])]
        last = page[-1]["community_id"]
    db.rollback()
    if not rows:
        return True
    vectors, faults = embed(db, corpus, space.embedding, [row["text"] for row in rows])
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    _write_vectors(db, space, [(row["community_id"], row["text"]) for row in rows if row["text"] in vectors], vectors)
    lacking_ids = {row["community_id"] for row in rows if isinstance(faults.get(row["text"]), Unembeddable)}
    if lacking_ids:
        note(db, job, "skipped", sorted(skipped_ids | lacking_ids))
    db.commit()
    if faults_of_others := [fault for fault in faults.values() if not isinstance(fault, Unembeddable)]:
        raise min(faults_of_others, key=weight)
    return False


def _without_vector(db: Database, corpus: Corpus, space: Space, last: int) -> list[Row]:
    """Return the next reports, after community `last`, that have no vector in a space."""
    return db.query(
        "SELECT r.community_id, r.title || E'\\n' || r.summary AS text FROM graphrag.community_reports r"
        " WHERE r.corpus_id = $1 AND r.community_id > $4 AND NOT EXISTS (SELECT FROM graphrag.report_vectors v"
        "   WHERE v.space_id = $2 AND v.community_id = r.community_id) ORDER BY r.community_id LIMIT $3",
        ["int4", "int4", "int4", "int8"],
        [corpus.id, space.id, BATCH, last],
    )
