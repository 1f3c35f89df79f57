"""Concepts that NLP finds in chunks which a model reads: for walks of `hybrid` and `ppr`, and as a graph where the
model gave none.

Without a model, a chunk stores only digests of its weak concepts: its other concepts are entities
(index/indexing/prepare.py).
"""

from collections.abc import Mapping, Sequence, Set

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.extraction.extract import why_unusable
from pg_graphrag.index.extraction.extraction_replies import NOTHING, TEMPLATE
from pg_graphrag.index.extraction.records import clean
from pg_graphrag.index.graph.drafts import ChunkDraft
from pg_graphrag.index.indexing.item_vectors import WindowNames, document_names
from pg_graphrag.index.indexing.prepare import add_concepts
from pg_graphrag.llm.endpoints.faults import ItemFault
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text.prose import prose

# NLP's types that do not say what a thing is.
_UNTYPED = ("NAME", "CONCEPT")
# Characters of a reply that are kept.
_SHOWN = 300


def add_concepts_beside(
    chunk_drafts: Sequence[ChunkDraft],
    title: str | None,
    options: Options,
    faults: Mapping[int, GraphRAGError],
    partial: Set[int],
    read: WindowNames,
) -> None:
    """Record the concepts of chunks of one document, and give faulty chunks, by ordinals, the graph that NLP finds.

    Chunks of the ordinals `partial`, for which the model's reply has a part, get both. Nothing is found if the library for
    a language is missing.
    """
    proses = (prose(draft.text(draft.own_start, draft.end)) for draft in chunk_drafts)
    counted = {draft.ordinal for draft in chunk_drafts} - faults.keys() - partial
    of_model = {
        draft.ordinal: (draft.entities, draft.relationships) for draft in chunk_drafts if draft.ordinal in partial
    }
    for draft in chunk_drafts:
        if draft.ordinal in of_model:
            draft.entities, draft.relationships = {}, {}
    names = document_names(title, chunk_drafts, read)
    try:
        for _ in add_concepts(chunk_drafts, title, proses, names, with_full_names=options.full_names, counted=counted):
            pass
    except GraphRAGError as error:
        # Models read languages for which nothing else is needed.
        if error.sqlstate != "58P01":
            raise
    for draft in chunk_drafts:
        if (fault := faults.get(draft.ordinal)) is not None:
            _let_stand_in(draft, options, fault)
        if draft.ordinal in of_model:
            entities, relationships = of_model[draft.ordinal]
            _fit_types(draft, options)
            draft.entities |= entities
            draft.relationships |= relationships
            draft.extraction = "cut off"


def _let_stand_in(draft: ChunkDraft, options: Options, fault: GraphRAGError) -> None:
    """Say of a chunk whose mentions are those of NLP why they are."""
    _fit_types(draft, options)
    why = why_unusable(fault)
    if why == NOTHING and not draft.entities:
        draft.extraction = "complete"
        return
    # The prompt's own words are the owner's.
    quoted = clean(fault.raw)[:_SHOWN] if isinstance(fault, ItemFault) and why != TEMPLATE else ""
    draft.extraction = "stood in"
    draft.unfit = [{"kind": "reply", "item": {"said": quoted} if quoted else {}, "reason": why}]


def _fit_types(draft: ChunkDraft, options: Options) -> None:
    """Give mentions of NLP the types of the corpus' extractions; those that its schema does not have go."""
    schema = options.entity_types
    for entity_key, entity in list(draft.entities.items()):
        if entity.type not in _UNTYPED:
            entity.type = entity.type.lower()
        if schema.is_closed and entity.type not in schema.entities:
            del draft.entities[entity_key]
    draft.relationships = {
        pair: relationship
        for pair, relationship in draft.relationships.items()
        if draft.entities.keys() >= set(pair) and not (schema.is_closed and schema.relations is not None)
    }
