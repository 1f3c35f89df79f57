"""Copies one corpus into a database that has other corpora, while both databases are read and written.

The copy reads one snapshot of the source and writes one transaction of the target. Rows get new numbers in the same
order, so that ties which are broken by number stay the same. The target's triggers fire as in a restore. No table is
locked, so writers of other corpora go on. Grants and protection are set last, under the lock that protect() and
grant_corpus() take.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

from pg_graphrag.beside.process.copying import check_policies
from pg_graphrag.beside.process.corpus_copy import access
from pg_graphrag.beside.process.corpus_copy.both_sides import (
    check_equal,
    check_names,
    document_count,
    reading,
    relations_of,
    writing,
)
from pg_graphrag.beside.process.corpus_copy.rows import copy_corpus_rows
from pg_graphrag.beside.process.corpus_copy.settled import grants_and_notes, repair
from pg_graphrag.beside.process.corpus_copy.source_corpus import SourceCorpus
from pg_graphrag.operate.admin.corpus_changes import check_name


@dataclass
class CorpusCopy:
    """The result of a copy: the number of documents, and sentences on what was left out or must still be done."""

    documents: int
    notes: list[str] = field(default_factory=list)


def copy_corpus(
    source: psycopg.Connection[Any],
    target: psycopg.Connection[Any],
    name: str,
    *,
    new_name: str | None = None,
    history_name: str | None = None,
    providers: Mapping[str, str] | None = None,
) -> CorpusCopy:
    """Copy a corpus with everything made of it, its history, curations, grants, accounts and replies of models.

    Both connections belong to owners, in autocommit mode and outside a transaction. Nothing is indexed again.

    `new_name`, `history_name`: names of the corpus and its history in the target; the same as here when None.
    `providers`: {provider of the source: provider of the target}, by name.

    Raises GraphRAGError: 42704 for an unknown corpus, history or provider; 22023 for an invalid name; 42710 if the target
      has a corpus of that name, or a provider of the same name with another definition; 55000 for attached rows and missing
      policies; 58P01, 42501 as `copying.copy`; XX001 if the copy differs from the source. The target stays unchanged then.
    Raises psycopg.Error: other errors of the servers.
    """
    with writing(target) as writer:
        with reading(source) as reader:
            check_policies(reader, writer)
            corpus = SourceCorpus.read(reader, name)
            for name_there in (new_name, history_name):
                if name_there is not None:
                    check_name(name_there)
            names = corpus.names(new_name, history_name)
            check_names(
                writer, list(names.values()), "Give another name with --as NAME; of a history with --history-as NAME."
            )
            transfer = copy_corpus_rows(reader, writer, corpus, relations_of(writer), names, providers or {}).transfer
            for number in corpus.ids:
                repair(transfer, number)
                check_equal(reader, corpus.name_of(number), writer, names[number])
            grants, notes = grants_and_notes(transfer)
        access.put_in_force(transfer, grants)
        return CorpusCopy(document_count(writer, transfer.new_number(corpus.ids[0])), notes)
