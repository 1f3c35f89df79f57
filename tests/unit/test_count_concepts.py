"""What a model's chunks are counted to have is what chunks without a model mention."""

from collections import Counter

import pytest
from pg_graphrag.index.graph.drafts import DocumentDraft
from pg_graphrag.index.indexing.prepare import DocumentNames, add_concepts, digests, draft
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text.tokenizers import tokenizer

TEXT = (
    "Grace Hopper wrote a compiler at Harvard. She met the CEO of Bank of America and King Henry III of England. "
    "The query planner chooses an index scan; Hopper said that the query planner works. Bank of America grew. "
)


@pytest.mark.parametrize("title", [None, "Grace Hopper", "Saving Private Ryan"])
@pytest.mark.parametrize("with_full_names", [True, False])
def test_counts_are_those_of_the_mentions(title: str | None, with_full_names: bool) -> None:
    options = Options(language="en", chunk_token_size=60, chunk_overlap=5, extractor="none")

    def read(*counted: int) -> DocumentDraft:
        *_, whole = draft(1, "", title, TEXT * 4, options, tokenizer(options.tokenizer))
        assert whole is not None
        proses = [chunk.text(chunk.own_start, chunk.end) for chunk in whole.chunks]
        for _ in add_concepts(
            whole.chunks, title, proses, DocumentNames(), with_full_names=with_full_names, counted=frozenset(counted)
        ):
            pass
        return whole

    mentioned, counted, both = read(), read(*range(100)), read(1)
    assert len(mentioned.chunks) > 2
    assert not any(chunk.entities or chunk.weak for chunk in counted.chunks)
    assert [chunk.concepts for chunk in counted.chunks] == [
        digests(Counter(chunk.weak) | Counter({name: entity.tf for name, entity in chunk.entities.items()}))
        for chunk in mentioned.chunks
    ]
    # A chunk that a model read changes nothing of what the others mention.
    assert not both.chunks[1].entities
    assert [chunk.entities for chunk in both.chunks if chunk.ordinal != 1] == [
        chunk.entities for chunk in mentioned.chunks if chunk.ordinal != 1
    ]
