"""hybrid: words, windows and a walk over the graph. Corrected queries of any mode are searched by it too."""

from pg_graphrag.search.query.mode import Context, Mode
from pg_graphrag.search.retrievers import graph_evidence
from pg_graphrag.search.retrievers.hybrid_retrieval import hybrid

MODE = Mode(
    name="hybrid",
    place=50,
    does="BM25, windows and personalised PageRank over the graph of entities and chunks, fused. The default.",
    details="""BM25, windows and a walk each score the chunks, and their scores are added as z-scores. The walk starts
    from the titles, names, dates (however written), numbers and identifiers of the question, and from the best chunks
    by BM25 and windows. It goes on to entities whose sentence has words of the question besides names. Where the
    question names a document by its title, the walk weighs more. Documents by whose titles the first chunk calls
    something are brought forward, where they are few (`titles` in `explain`); where the question names a title, so are
    chunks of other documents to which names in the first ones lead, as far as they are near to question and name and
    have words of the question that the first ones lack (`bridges`: over which name, from which chunk). With
    `"extractor": "llm"`, what the model said of entities and relationships chooses chunks to start from. Where the
    corpus' option `conversation` is set, turns count by the turns around them (`turns`), and the walk less. Documents
    whose `valid_from` is in a day or month that the question names come forward (`dates`). Multi-hop questions gain
    most. Where words alone find the answer, it stays within .02 of `bm25`'s recall. `{"profile": "paper"}`: local and
    global, round-robin.""",
    source="HippoRAG, arXiv 2405.14831; LightRAG",
    function="BM25, dense retrieval and PageRank over the entity–chunk graph, fused",
    options=("profile", "bm25_idf", "graph_top_k", "damping"),
    retrieve=hybrid,
    context=Context(evidence=(graph_evidence.local_evidence, graph_evidence.global_evidence)),
)
