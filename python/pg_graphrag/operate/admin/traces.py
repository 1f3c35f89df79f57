"""Searches every table of the schema and of the corpus' graph for traces of a document. The catalogs name the
tables, so new ones are searched too.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pg_graphrag.ground.numeric import np
from pg_graphrag.index.graph.cypher import has_graph
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus

# Maximum of stretches of each kind: each is compared with every text of the corpus.
_STRETCHES = 20
# Characters of a stretch of text.
_SHORTEST, _LONGEST = 24, 200
# Where a stretch ends: what JSON writes otherwise, and white space that descriptions fold.
_END = re.compile(r'["\\\x00-\x1f\x7f]|\s\s+|(?<=[.!?。！？])\s*')
# Names, numbers and the like: words that a document may be alone with.
_NAME = re.compile(r"\w[\w-]*\w")
_LEAST_NAME = 5
# Columns that a document is known by, whatever table they are in.
_NUMBER, _KEY = "document_id", "source_key"
_OWNER, _OWNER_BY_NAME = "t.corpus_id = $1", "t.corpus = $2"
# Its source_key is an entity's: the source of a relationship, beside its target.
_OTHER_KEY = "target_key"
_TEXTS = ("text", "character varying", "text[]", "jsonb", "json", "tsvector", "xml", "ag_catalog.agtype")
_NUMBERS = ("bigint", "integer")


@dataclass(frozen=True, slots=True)
class Relation:
    """A table that stores rows: its quoted name, {column: quoted name, type}, and the condition of its rows of corpus ``$1``.

    `scope` is empty where rows belong to no corpus.
    """

    name: str
    columns: dict[str, str]
    scope: str

    @property
    def texts(self) -> list[str]:
        """Columns that hold text, quoted."""
        return [f't."{column}"' for column, kind in self.columns.items() if kind in _TEXTS]

    @property
    def is_by_number(self) -> bool:
        """Whether rows name the document they were made of."""
        return self.columns.get(_NUMBER) in _NUMBERS

    @property
    def is_by_key(self) -> bool:
        """Whether rows have the key of a document, in a corpus."""
        return (
            self.columns.get(_KEY) == "text"
            and _OTHER_KEY not in self.columns
            and bool({"corpus", "corpus_id"} & set(self.columns))
        )


# Tables of the schema and of the corpus' graph; partitions and children for themselves.
_RELATIONS = """
SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS name,
       pg_catalog.array_agg(a.attname::text ORDER BY a.attnum) AS columns,
       pg_catalog.array_agg(pg_catalog.format_type(a.atttypid, NULL) ORDER BY a.attnum) AS types
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.relkind IN ('r', 'm') AND n.nspname = ANY ($1)
   AND c.relowner = (SELECT o.relowner FROM pg_catalog.pg_class o WHERE o.oid = 'graphrag.corpora'::pg_catalog.regclass)
 GROUP BY n.nspname, c.relname
 ORDER BY n.nspname <> 'graphrag', c.relname
"""
# How to find the corpus of a row that has none itself: column, referenced table.
_LEADS = {
    "segment_id": "bm25_segments",
    "entity_id": "entities",
    "relationship_id": "relationships",
    "community_id": "communities",
    "curation_id": "curations",
    "space_id": "embedding_spaces",
    "attached_id": "_attached_tables",
    "chunk_id": "chunks",
}


def relations(db: Database, corpus: Corpus) -> list[Relation]:
    """Return the tables that may hold something of a document of the corpus."""
    schemas = ["graphrag", corpus.graph_name] if has_graph(db, corpus) else ["graphrag"]
    tables = []
    for row in db.query(_RELATIONS, ["text[]"], [schemas]):
        columns = dict(zip(row["columns"], row["types"], strict=True))
        tables.append(Relation(row["name"], columns, _scope(row["name"], columns)))
    return tables


def _scope(name: str, columns: dict[str, str]) -> str:
    if name == "graphrag.corpora":
        return "t.id = $1"
    if "corpus_id" in columns:
        return "t.corpus_id = $1"
    for column, table in _LEADS.items():
        if column in columns:
            return f"t.{column} IN (SELECT l.id FROM graphrag.{table} l WHERE l.corpus_id = $1)"
    return ""


def number_of_rows(db: Database, corpus: Corpus, relation: Relation, ids: Sequence[int], key: str) -> int:
    """Count the rows of a relation that name a document by number or key."""
    condition = _by_name(relation)
    sql = f"SELECT pg_catalog.count(*) AS n FROM ONLY {relation.name} t WHERE {condition}"
    return int(db.value(sql, _NAME_TYPES, [corpus.id, corpus.name, list(ids), key]))


def delete_rows(db: Database, corpus: Corpus, relation: Relation, ids: Sequence[int], key: str) -> int:
    """Delete the rows of a relation that name a document by number or key; return how many."""
    condition = _by_name(relation)
    sql = f"""
    WITH gone AS (DELETE FROM ONLY {relation.name} t WHERE {condition} RETURNING 1)
    SELECT pg_catalog.count(*) AS n FROM gone"""
    return int(db.value(sql, _NAME_TYPES, [corpus.id, corpus.name, list(ids), key]))


# Types of the corpus' number and name, the documents' numbers and key.
_NAME_TYPES = ["int4", "text", "int8[]", "text"]
# Parameters that a condition has no place for.
_UNUSED = "($1, $2, $3, $4) IS NOT DISTINCT FROM (NULL::int4, NULL::text, NULL::int8[], NULL::text)"


def _by_name(relation: Relation) -> str:
    conditions = [_UNUSED]
    if relation.is_by_number:
        conditions.append(f"t.{_NUMBER} = ANY ($3)")
    if relation.is_by_key:
        conditions.append(f"t.{_KEY} = $4 AND {_OWNER if 'corpus_id' in relation.columns else _OWNER_BY_NAME}")
    return " OR ".join(conditions)


def numbers(db: Database, corpus: Corpus, key: str) -> list[int]:
    """Return the numbers that documents of this key have, or had where a table remembers it."""
    ids: set[int] = set()
    for relation in relations(db, corpus):
        number = "id" if relation.name == "graphrag.documents" else _NUMBER
        if relation.is_by_key and relation.columns.get(number) in _NUMBERS:
            owner = _OWNER if "corpus_id" in relation.columns else _OWNER_BY_NAME
            sql = f"SELECT DISTINCT t.{number} AS id FROM ONLY {relation.name} t WHERE t.{_KEY} = $4 AND {owner} OR {_UNUSED}"
            ids |= {row["id"] for row in db.query(sql, _NAME_TYPES, [corpus.id, corpus.name, [], key])}
    return sorted(ids)


# Every text that other documents of the corpus bring, rows of attached tables among them; and the names of settings, which are
# none of a document's.
_ELSEWHERE = """
SELECT DISTINCT s.stretch
  FROM (SELECT pg_catalog.lower(pg_catalog.concat_ws(E'\\n', d.source_key, d.title, d.content, d.metadata::text)) AS text
          FROM graphrag.documents d WHERE d.corpus_id = $1 AND d.id <> ALL ($2)
         UNION ALL
        SELECT pg_catalog.lower(pg_catalog.concat_ws(E'\\n', p.caption, p.alternative_text, p.description, p.recognised_text))
          FROM graphrag.pictures p WHERE p.corpus_id = $1 AND p.document_id <> ALL ($2)
         UNION ALL
        SELECT pg_catalog.lower(c.name || c.options::text) FROM graphrag.corpora c
         UNION ALL
        SELECT pg_catalog.lower(pg_catalog.concat_ws(E'\\n', p.name, p.base_url, p.options::text)) FROM graphrag.providers p
         UNION ALL
        SELECT pg_catalog.lower(e.type) FROM (SELECT DISTINCT e.type FROM graphrag.entities e WHERE e.corpus_id = $1) e
         UNION ALL
        -- Rows of attached tables bring names that their documents do not spell: a code without its hyphens.
        SELECT pg_catalog.lower(pg_catalog.concat_ws(E'\\n', m.raw_key, m.name))
          FROM graphrag.entity_mentions m
          JOIN graphrag.documents d ON d.id = m.document_id
         WHERE m.corpus_id = $1 AND d.attached_id IS NOT NULL AND d.indexed_hash = d.content_hash AND d.id <> ALL ($2)) x
  JOIN pg_catalog.unnest($3) AS s (stretch) ON pg_catalog.strpos(x.text, s.stretch) > 0
"""


def stretches(db: Database, corpus: Corpus, ids: Sequence[int], key: str) -> list[str]:
    """Return parts of the document's text, in lower case, that no other document of the corpus has: traces are recognised
    by them.
    """
    candidates = [key.lower()] if len(key) >= _LEAST_NAME else []
    rows = db.query(
        "SELECT DISTINCT u.lexeme FROM graphrag.chunks c, pg_catalog.unnest(c.tsv) u WHERE c.document_id = ANY ($1)",
        ["int8[]"],
        [list(ids)],
    )
    lexemes = {row["lexeme"] for row in rows}
    for row in db.query(
        "SELECT d.title, d.content,"
        "       (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(E'\\n', p.caption, p.alternative_text, p.description,"
        "                                                          p.recognised_text), E'\\n')"
        "          FROM graphrag.pictures p WHERE p.document_id = d.id) AS of_pictures"
        "  FROM graphrag.documents d WHERE d.id = ANY ($1)",
        ["int8[]"],
        [list(ids)],
    ):
        texts = [row["title"] or "", row["content"], row["of_pictures"] or ""]
        candidates += _sentences(texts)[: 2 * _STRETCHES] + [
            _stem(name, lexemes) for name in _names(texts)[: 4 * _STRETCHES]
        ]
    candidates = list(dict.fromkeys(candidates))
    if not candidates:
        return []
    rows = db.query(_ELSEWHERE, ["int4", "int8[]", "text[]"], [corpus.id, list(ids), candidates])
    elsewhere = {row["stretch"] for row in rows}
    own = [stretch for stretch in candidates if stretch not in elsewhere]
    names = [stretch for stretch in own if len(stretch) < _SHORTEST]
    return names[:_STRETCHES] + [stretch for stretch in own if len(stretch) >= _SHORTEST][:_STRETCHES]


def _sentences(texts: Sequence[str]) -> list[str]:
    parts = {part.strip()[:_LONGEST].lower() for text in texts for part in _END.split(text)}
    return sorted((part for part in parts if len(part) >= _SHORTEST), key=lambda part: (-len(part), part))


def _names(texts: Sequence[str]) -> list[str]:
    words = {word for text in texts for word in _NAME.findall(text)}
    names = {
        word.lower()
        for word in words
        if _LEAST_NAME <= len(word) < _SHORTEST and (word[0].isupper() or any(letter.isdigit() for letter in word))
    }
    return sorted(names, key=lambda name: (-len(name), name))


def _stem(name: str, lexemes: Collection[str]) -> str:
    """Return the beginning of a name that BM25 has as a term, which is in the name too; else the name."""
    stems = [name[:length] for length in range(_LEAST_NAME, len(name)) if name[:length] in lexemes]
    return stems[-1] if stems else name


def _has_stretch(relation: Relation) -> str:
    # As a row: Apache AGE's type has a form as text, but casts scalars alone.
    text = f"pg_catalog.lower(ROW ({', '.join(relation.texts)})::text)"
    return (
        f"EXISTS (SELECT FROM (SELECT {text} AS text OFFSET 0) x"
        " JOIN pg_catalog.unnest($2) AS s (stretch) ON pg_catalog.strpos(x.text, s.stretch) > 0)"
    )


def horizon(db: Database) -> str:
    """Return the oldest transaction that is not over: rows that others have seen by now were written before it."""
    return str(db.value("SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text"))


def places_with_text(db: Database, corpus: Corpus, relation: Relation, own: Sequence[str]) -> list[str]:
    """Return the places (ctid) of the rows of a relation that hold one of the stretches. It compares every text."""
    if not own or not relation.texts:
        return []
    scope, condition = relation.scope or "$1 IS NOT NULL", _has_stretch(relation)
    sql = f"SELECT t.ctid::text AS place FROM ONLY {relation.name} t WHERE {scope} AND {condition}"
    return [row["place"] for row in db.query(sql, ["int4", "text[]"], [corpus.id, list(own)])]


def number_with_text(
    db: Database, corpus: Corpus, relation: Relation, own: Sequence[str], places: Sequence[str], since: str
) -> int:
    """Count the rows of a relation that contain one of the stretches: rows at `places`, and rows written since.

    `since`: the `horizon` before the places were looked for. A frozen row may pass for a new one, and is compared.
    """
    if not own or not relation.texts:
        return 0
    scope, condition = relation.scope or "$1 IS NOT NULL", _has_stretch(relation)
    written = "pg_catalog.age(t.xmin) <= pg_catalog.age($4::xid8::xid)"
    sql = f"""
    SELECT pg_catalog.count(*) AS n
      FROM (SELECT t.* FROM ONLY {relation.name} t WHERE {scope} AND (t.ctid = ANY ($3) OR {written}) OFFSET 0) t
     WHERE {condition}"""
    return int(db.value(sql, ["int4", "text[]", "tid[]", "text"], [corpus.id, list(own), list(places), since]))


def delete_with_text(db: Database, corpus: Corpus, relation: Relation, own: Sequence[str], key: str) -> int:
    """Delete the rows of a relation that hold one of the stretches, or name the document as evidence; return how many."""
    evidence = "$3 = ANY (t.evidence)" if relation.columns.get("evidence") == "text[]" else "$3 IS NULL"
    scope, condition = relation.scope or "$1 IS NOT NULL", f"({_has_stretch(relation)} OR {evidence})"
    sql = f"""
    WITH gone AS (DELETE FROM ONLY {relation.name} t WHERE {scope} AND {condition} RETURNING 1)
    SELECT pg_catalog.count(*) AS n FROM gone"""
    return int(db.value(sql, ["int4", "text[]", "text"], [corpus.id, list(own), key]))


def number_packed(db: Database, corpus: Corpus, ids: Collection[int]) -> int:
    """Count the items of documents that BM25 segments hold, deleted ones among them."""
    rows = db.query("SELECT s.document_ids FROM graphrag.bm25_segments s WHERE s.corpus_id = $1", ["int4"], [corpus.id])
    return sum(int(np.isin(np.frombuffer(row["document_ids"], "<i8"), list(ids)).sum()) for row in rows)


# What ANALYZE sampled: the most common values and the histogram of a column, as text.
_SAMPLED = """
SELECT DISTINCT pg_catalog.format('%I.%I', v.schemaname, v.tablename) AS name
  FROM pg_catalog.pg_stats v
  JOIN pg_catalog.unnest($2) AS s (stretch)
    ON pg_catalog.strpos(pg_catalog.lower(pg_catalog.concat_ws(E'\\n', v.most_common_vals::text, v.histogram_bounds::text,
                                                              v.most_common_elems::text)), s.stretch) > 0
 WHERE v.schemaname = ANY ($1)
 ORDER BY 1
"""


def sampled_tables(db: Database, corpus: Corpus, own: Sequence[str]) -> list[str]:
    """Return the tables whose statistics for the planner hold one of the stretches."""
    return [
        row["name"] for row in db.query(_SAMPLED, ["text[]", "text[]"], [["graphrag", corpus.graph_name], list(own)])
    ]
