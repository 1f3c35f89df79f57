"""What the first screen of the pages offers: names to ask about, found without a model."""

from typing import Any

from pg_graphrag.beside.serve import graph_parts
from pg_graphrag.beside.serve.caller_database import Connection
from pg_graphrag.beside.serve.reading import rows

_THEMES = 4
_ENTITIES = 12


def offers(connection: Connection, corpus: str) -> dict[str, Any]:
    """Return {themes, entities, pairs, rerank}, as the caller sees it.

    themes: the largest communities {title, names}, as `graph_parts.communities` has them; entities: the most connected ones
    {name, type}; pairs: names of two with a strong relationship; rerank: whether the corpus has a model for it.
    """
    themes = graph_parts.communities(connection, corpus, None, _THEMES)
    entities = rows(
        connection,
        "SELECT n.entity_id, n.name, n.type FROM graphrag.graph_nodes n WHERE n.corpus = %(corpus)s"
        " ORDER BY n.degree DESC, n.entity_id LIMIT %(limit)s",
        corpus=corpus,
        limit=_ENTITIES,
    )
    names = {entity["entity_id"]: entity["name"] for entity in entities}
    pairs = rows(
        connection,
        "SELECT g.source_id, g.target_id FROM graphrag.graph_edges g"
        " WHERE g.corpus = %(corpus)s AND g.source_id = ANY (%(ids)s) AND g.target_id = ANY (%(ids)s)"
        " ORDER BY g.strength DESC NULLS LAST, g.weight DESC, g.relationship_id LIMIT 3",
        corpus=corpus,
        ids=list(names),
    )
    (options,) = rows(
        connection,
        "SELECT coalesce(pg_catalog.bool_or(c.options ? 'rerank'), false) AS rerank"
        "  FROM graphrag.corpora c WHERE c.name = %(corpus)s",
        corpus=corpus,
    )
    return {
        "themes": [{"title": theme["title"], "names": theme["names"]} for theme in themes],
        "entities": [{"name": entity["name"], "type": entity["type"]} for entity in entities],
        "pairs": [[names[pair["source_id"]], names[pair["target_id"]]] for pair in pairs],
        "rerank": options["rerank"],
    }
