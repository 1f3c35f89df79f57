"""What a model's chunks are counted to have is what chunks without a model mention."""

from __future__ import annotations

import pytest
from pg_graphrag.corpus.options import Options
from pg_graphrag.indexing.prepare import add_concepts, count_concepts, draft
from pg_graphrag.text.tokenizers import tokenizer

TEXT = (
    "Grace Hopper wrote a compiler at Harvard. She met the CEO of Bank of America and King Henry III of England. "
    "The query planner chooses an index scan; Hopper said that the query planner works. Bank of America grew. "
)


@pytest.mark.parametrize("title", [None, "Grace Hopper", "Saving Private Ryan"])
@pytest.mark.parametrize("with_full_names", [True, False])
def test_counts_are_those_of_the_mentions(title: str | None, with_full_names: bool) -> None:
    options = Options(language="en", chunk_token_size=60, chunk_overlap=5, extractor="none")
    *_, whole = draft(1, "", title, TEXT * 4, options, tokenizer(options.tokenizer))
    proses = [chunk.text(chunk.own_start, chunk.end) for chunk in whole.chunks]

    counts = list(count_concepts(whole.chunks, title, proses, with_full_names=with_full_names))
    assert not any(chunk.entities or chunk.weak for chunk in whole.chunks)
    for _ in add_concepts(whole.chunks, title, proses, with_full_names=with_full_names):
        pass

    assert len(counts) > 2
    assert counts == [
        chunk.weak | {name: entity.tf for name, entity in chunk.entities.items()} for chunk in whole.chunks
    ]
