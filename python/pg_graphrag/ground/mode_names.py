"""Names and descriptions of the modes, for programs beside the server. Written by docs/modes.py."""

MODES = (
    "naive",
    "bm25",
    "local",
    "global",
    "hybrid",
    "mix",
    "path",
    "ppr",
    "graph_local",
    "graph_global",
    "drift",
    "lazy",
)
# For graphrag.ask, models make the context of the answer.
REDUCED = ("graph_global", "drift", "lazy")
MEANINGS = {
    "naive": "Chunks by the cosine of their best window (60–120 words) to the query.",
    "bm25": (
        "Okapi BM25 (k1 1.5, b 0.75), stemmed or morphological, exact after any mix of changes. For names, "
        "codes and error messages."
    ),
    "local": (
        "Entities that the query names (or nearly, or by words of their names), their relationships, and the "
        "chunks that mention them. For questions about particular things."
    ),
    "global": (
        "Relationships about the theme of the query, their endpoints, and the chunks that state them. For "
        "questions about how things hang together."
    ),
    "hybrid": "BM25, windows and personalised PageRank over the graph of entities and chunks, fused. The default.",
    "mix": "local, global and direct chunks, by scores, each as a share of the best of its ranking.",
    "path": (
        "From what the query names, over paths of at most two relationships, to chunks. For questions that "
        "connect two named things."
    ),
    "ppr": (
        "Chunks by personalised PageRank alone, over entities, chunks and synonyms. For multi-hop questions "
        "whose second passage shares no word with the question."
    ),
    "graph_local": "Entities of the query, the relationships among them first, and the chunks that say most of both.",
    "graph_global": "From the reports on one level of communities down to chunks. For questions about the whole.",
    "drift": "The best reports raise questions, which local searches follow up.",
    "lazy": "Chunks best first, communities breadth first, within a budget of relevance tests.",
}
