"""A corpus on its way to another database."""

from collections.abc import Mapping
from dataclasses import dataclass

from pg_graphrag.beside.process.copying import Cursor
from pg_graphrag.beside.process.corpus_copy.row_numbers import Renumbering
from pg_graphrag.beside.process.corpus_copy.source_corpus import SourceCorpus


@dataclass(frozen=True)
class Transfer:
    """What is copied, from where and where to, and the names, providers and numbers that it gets there."""

    reader: Cursor
    writer: Cursor
    corpus: SourceCorpus
    # By the number of the corpus, or of its history.
    names: Mapping[int, str]
    # {provider of the source: provider of the target}.
    providers: Mapping[str, str]
    numbers: Renumbering

    def new_number(self, corpus: int) -> int:
        """Return the number that the corpus, or its history, gets in the target."""
        return self.numbers.maps["corpora"][corpus]
