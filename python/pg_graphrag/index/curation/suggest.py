"""suggest_merges: pairs of entities that may be the same, for a person to decide. Reads only."""

from collections.abc import Iterable, Iterator
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_reading import read_json
from pg_graphrag.ground.numeric import int64s, np, packed
from pg_graphrag.index.curation.name_variants import numbers, variants
from pg_graphrag.server import Database, Row, slices
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus
from pg_graphrag.server.corpus.spaces import rows_of

# A pair with less is not worth a person's time.
LEAST = 0.6
# Vectors are compared, each with each, for the most mentioned entities up to this number: a second of one processor.
MOST_COMPARED = 4000
COMPARED_AT_ONCE = 500
# Names with at least this cosine are a suggestion by themselves; the score is the cosine times the factor.
NEAR = 0.85
NEAR_FACTOR = 0.7
# Most that neighbours in common, and near names, add to a score; the factor for different types.
NEIGHBOURS_ADD = 0.15
NEAR_ADD = 0.05
TYPES_FACTOR = 0.85
# What documents mention by a name, alias or code that is not one row's alone.
OF_SEVERAL_ROWS = 0.7
# Row keys that a reason names.
MAX_KEYS = 5

# Aliases, codes and names of rows that documents mention too.
_NAMES_OF_ROWS = """
SELECT o.other_id, pg_catalog.array_agg(DISTINCT o.entity_id) AS rows,
       pg_catalog.array_agg(DISTINCT o.source_key ORDER BY o.source_key) AS keys
  FROM (SELECT own.entity_id, CASE own.entity_id WHEN r.low_id THEN r.high_id ELSE r.low_id END AS other_id,
               d.source_key COLLATE "C" AS source_key
          FROM graphrag._attached_tables a
          JOIN graphrag.documents d ON d.attached_id = a.id
          JOIN graphrag.relationship_mentions m ON m.document_id = d.id AND m.keywords && ARRAY['alias', 'name']
          JOIN graphrag.relationships r ON r.id = m.relationship_id
          JOIN graphrag.entity_mentions own ON own.chunk_id = m.chunk_id AND own.type = a.entity_type
           AND own.entity_id IN (r.low_id, r.high_id)
         WHERE a.corpus_id = $1 AND a.kind = 'entities') o
 WHERE EXISTS (SELECT FROM graphrag.entity_mentions m JOIN graphrag.documents d ON d.id = m.document_id
                WHERE m.entity_id = o.other_id AND d.attached_id IS NULL)
 GROUP BY o.other_id
"""

_OF_ONE_ROW = "SELECT r.name_id, r.entity_id FROM graphrag._row_names r WHERE r.corpus_id = $1"


def suggest(db: Database, corpus: str | None, max_suggestions: int | None) -> Iterator[tuple[str, str, float, str]]:
    """Yield (entity, target, score, reason) best first; the target is the one mentioned more."""
    target_corpus = find_corpus(db, corpus)
    if max_suggestions is None or max_suggestions < 1:
        raise GraphRAGError(f"max_suggestions cannot be {max_suggestions}", hint="Give 1 or more.")
    entities = {
        row["id"]: row
        for row in db.stream(
            "SELECT e.id, e.key, e.name, e.type, e.mention_count FROM graphrag.entities e WHERE e.corpus_id = $1",
            ["int4"],
            [target_corpus.id],
        )
    }
    pairs = variants({number: (row["key"], row["name"]) for number, row in entities.items()})
    numbers_of = {number: tuple(numbers(row["key"])) for number, row in entities.items()}
    cosines = _near_names(db, target_corpus, entities, numbers_of, pairs)
    for pair, cosine in cosines.items():
        low, high = pair
        score = NEAR_FACTOR * cosine
        if numbers_of[low] == numbers_of[high] and score > pairs.get(pair, (0.0,))[0]:
            pairs[pair] = (score, "embedding: the names mean the same")
    row_of = {}
    for pair, row_entity, score, reason in _names_of_rows(db, target_corpus.id):
        pairs[pair] = score, reason
        row_of[pair] = row_entity
    for pair in _undone_merges(db, target_corpus.id, entities):
        pairs.pop(pair, None)
    # Names of one row are its entity already.
    own = {row["name_id"]: row["entity_id"] for row in db.query(_OF_ONE_ROW, ["int4"], [target_corpus.id])}
    pairs = {(low, high): pair for (low, high), pair in pairs.items() if own.get(low, low) != own.get(high, high)}
    suggestions = []
    for pair, (shared_count, smaller_count) in _shared_neighbours(db, list(pairs)).items():
        score, reason = pairs[pair]
        # The row gets the name by which its table knows it.
        target_row, entity_row = sorted(
            (entities[number] for number in pair), key=lambda row: (row["id"] != row_of.get(pair), _rank(row))
        )
        if cosine := cosines.get(pair, 0.0):
            score += NEAR_ADD * cosine
            reason += f"; cosine of the names {cosine:.2f}"
        if shared_count:
            score += NEIGHBOURS_ADD * shared_count / smaller_count
            reason += f"; {shared_count} of {smaller_count} neighbours in common"
        # What documents call a row has no type of its table.
        is_other_type = pair not in row_of and target_row["type"] != entity_row["type"]
        if is_other_type and "UNKNOWN" not in (target_row["type"], entity_row["type"]):
            score *= TYPES_FACTOR
            reason += f"; but types {entity_row['type']} and {target_row['type']}"
        if score >= LEAST:
            suggestions.append(
                (
                    -round(min(score, 1.0), 4),
                    entity_row["key"].encode(),
                    target_row["key"].encode(),
                    entity_row,
                    target_row,
                    reason,
                )
            )
    for score, _, _, entity, target, reason in sorted(suggestions, key=lambda row: row[:3])[:max_suggestions]:
        yield entity["name"], target["name"], -score, reason


def _names_of_rows(db: Database, corpus_id: int) -> Iterator[tuple[tuple[int, int], int, float, str]]:
    """Yield (pair, the row's entity in it, score, reason) of entities that documents mention by names, aliases and codes of
    rows.
    """
    for row in db.query(_NAMES_OF_ROWS, ["int4"], [corpus_id]):
        keys = ", ".join(row["keys"][:MAX_KEYS]) + (", …" if len(row["keys"]) > MAX_KEYS else "")
        reason = f"row: ambiguous, a name, alias or code of {len(row['rows'])} rows: {keys}"
        if len(row["rows"]) == 1:
            reason = f"row: ambiguous, a name, alias or code of {keys}, and another row's own name"
        for entity in row["rows"]:
            low, high = sorted((entity, row["other_id"]))
            yield (low, high), entity, OF_SEVERAL_ROWS, reason


def _rank(row: Row) -> tuple[int, int, bytes]:
    """Most mentions first, then the longer name."""
    return -row["mention_count"], -len(row["key"]), row["key"].encode()


def _near_names(
    db: Database,
    corpus: Corpus,
    entities: dict[int, Row],
    numbers_of: dict[int, tuple[str, ...]],
    pairs: Iterable[tuple[int, int]],
) -> dict[tuple[int, int], float]:
    """Return the cosines, if at least NEAR, of pairs of names with the same numbers, and of `pairs`.

    Only of names in languages that the embedding model knows. "Pump 1" and "Pump 2" are near, as all names of a series are.
    """
    if corpus.space is None:
        return {}
    vectors = rows_of("entity", corpus.space, own_tables=corpus.own_tables)
    embedded = [row for row in entities.values() if corpus.options.embedding.embeds(row["key"])]
    candidates = sorted(embedded, key=_rank)[:MOST_COMPARED]
    send = db.vector_type.removesuffix("vector") + "vector_send"
    row = db.query(
        f"SELECT {packed(ids='v.entity_id')},"
        f"       pg_catalog.string_agg(pg_catalog.substr({send}(v.embedding), 5), ''::bytea) AS vectors"
        f"  FROM {vectors} v WHERE v.entity_id = ANY ($1)",
        ["int8[]"],
        [[row["id"] for row in candidates]],
    )[0]
    ids = int64s(row["ids"])
    if not len(ids):
        return {}
    matrix = np.frombuffer(row["vectors"], ">f4").astype(np.float32).reshape(len(ids), -1)
    place_of = {number: place for place, number in enumerate(ids.tolist())}
    known = [pair for pair in pairs if pair[0] in place_of and pair[1] in place_of]
    ends = np.array([[place_of[number] for number in pair] for pair in known], np.int64).reshape(-1, 2)
    cosines = np.einsum("ij,ij->i", matrix[ends[:, 0]], matrix[ends[:, 1]])
    cosines_by_pair = {
        pair: min(cosine, 1.0) for pair, cosine in zip(known, cosines.tolist(), strict=True) if cosine >= NEAR
    }
    codes: dict[tuple[str, ...], int] = {}
    series = np.array([codes.setdefault(numbers_of[number], len(codes)) for number in place_of])
    for start in range(0, len(ids), COMPARED_AT_ONCE):
        end = start + COMPARED_AT_ONCE
        cosines = matrix[start:end] @ matrix[start:].T
        for row_, column in np.argwhere((cosines >= NEAR) & (series[start:end, None] == series[start:])):
            # Each pair once.
            if row_ < column:
                low, high = sorted((int(ids[start + row_]), int(ids[start + column])))
                cosines_by_pair[low, high] = min(float(cosines[row_, column]), 1.0)
    return cosines_by_pair


def _undone_merges(db: Database, corpus_id: int, entities: dict[int, Row]) -> Iterator[tuple[int, int]]:
    """Yield pairs whose merge a person has undone."""
    ids = {row["key"]: number for number, row in entities.items()}
    for row in db.query(
        "SELECT c.arguments FROM graphrag.curations c"
        " WHERE c.corpus_id = $1 AND c.kind = 'merge_entities' AND c.undone_at IS NOT NULL",
        ["int4"],
        [corpus_id],
    ):
        arguments: dict[str, Any] = read_json(row["arguments"])
        for key in arguments["entities"]:
            if key in ids and arguments["target"] in ids:
                low, high = sorted((ids[key], ids[arguments["target"]]))
                yield low, high


def _shared_neighbours(db: Database, pairs: list[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return for each pair (neighbours in common, neighbours of the end with fewer), without the pair itself."""
    counts: dict[tuple[int, int], tuple[int, int]] = {}
    for part in slices(pairs):
        ids = sorted({number for pair in part for number in pair})
        neighbours: dict[int, set[int]] = {number: set() for number in ids}
        for row in db.stream(
            "SELECT r.low_id AS one, r.high_id AS other FROM graphrag.relationships r WHERE r.low_id = ANY ($1) UNION ALL"
            " SELECT r.high_id, r.low_id FROM graphrag.relationships r WHERE r.high_id = ANY ($1)",
            ["int8[]"],
            [ids],
        ):
            neighbours[row["one"]].add(row["other"])
        for a, b in part:
            mine, theirs = neighbours[a] - {b}, neighbours[b] - {a}
            counts[a, b] = (len(mine & theirs), min(len(mine), len(theirs)))
    return counts
