"""BM25 over chunks as a retriever, and how many lexemes a name or a sentence shares with a query."""

import functools
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import accumulate

from pg_graphrag.ground.numeric import Flags, Ids, NDArray, Scores, np, union, within
from pg_graphrag.index.bm25 import BM25Index
from pg_graphrag.index.bm25.scoring import idf
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.query import Query, once, timed
from pg_graphrag.search.query.rankings import Coverage, Ranking
from pg_graphrag.search.retrievers.empty import language_of_silence
from pg_graphrag.server.caches.session_cache import cache
from pg_graphrag.text.languages import DETECTED, LANGUAGES, LETTER_OF_A_WORD, UNANALYSED
from pg_graphrag.text.letters import unified, unified_text
from pg_graphrag.text.words.search_terms import is_named_stop_word

_WORD = re.compile(f"{LETTER_OF_A_WORD}+")
# What a stemmer leaves of a pair of letters (ला) stands in most names. A syllable of Hangul is a word.
_LONE_LETTER = re.compile(rf"(?![\uac00-\ud7a3])[{UNANALYSED}]")
_GAP = re.compile(r"[\W_]")


class SharedWords:
    """The lexemes of a query with their weights, for counting in texts.

    A lexeme in Latin letters matches at the beginning of a word, as stems do; one in other scripts anywhere, because words
    there are not spaced.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        spaced: dict[str, float] = {}
        unspaced: dict[str, float] = {}
        for lexeme, weight in weights.items():
            form = _unified(lexeme)
            # English stems end in i where words end in y.
            if form.isascii():
                form = form[:-1] if len(form) > 3 and form.endswith("i") else form
                spaced[form] = max(weight, spaced.get(form, 0.0))
            elif form and not _LONE_LETTER.fullmatch(form):
                unspaced[form] = max(weight, unspaced.get(form, 0.0))
        self._set(spaced, unspaced, sum(weights.values()))

    def _set(self, spaced: dict[str, float], unspaced: dict[str, float], total: float) -> None:
        self._spaced, self._unspaced, self._total = spaced, unspaced, total
        self._beginnings = tuple(spaced)

    def without(self, text: str) -> "SharedWords":
        """Return the lexemes that do not stand in a text."""
        text = _unified(text)
        spaced, unspaced = (
            {
                form: weight
                for form, weight in lexemes.items()
                if next(_having(form, text, [0, len(text) + 1], at_beginnings=at_beginnings), None) is None
            }
            for lexemes, at_beginnings in ((self._spaced, True), (self._unspaced, False))
        )
        rest = SharedWords({})
        rest._set(spaced, unspaced, sum(spaced.values()) + sum(unspaced.values()))
        return rest

    def shares_of_query(self, texts: list[str]) -> Scores:
        """Return the share of the query's weight that stands in each text, (n,) float64 in 0 … 1."""
        shares = np.zeros(len(texts))
        if not self._total:
            return shares
        # One search for each lexeme in all texts costs less than one for each lexeme and text.
        unified_texts = list(map(_unified, texts))
        whole = "\n".join(unified_texts)
        starts = list(accumulate((len(text) + 1 for text in unified_texts), initial=0))
        for lexemes, at_beginnings in ((self._spaced, True), (self._unspaced, False)):
            for form, weight in lexemes.items():
                shares[list(_having(form, whole, starts, at_beginnings=at_beginnings))] += weight
        return np.minimum(shares / self._total, 1.0)

    def of_name(self, name: str) -> float:
        """Return the share of a name's letters that the query says, 0 … 1."""
        words, letters = _words(name)
        if not self._unspaced:  # a search looks at hundreds of names
            words_said = [word for word in words if word.startswith(self._beginnings)]
            return len("".join(words_said)) / (len(letters) or 1)
        text = unified(name)
        is_said = bytearray(len(text))
        for form in self._unspaced:
            start = text.find(form)
            while start >= 0:
                is_said[start : start + len(form)] = b"\1" * len(form)
                start = text.find(form, start + 1)
        for word in _WORD.finditer(text):
            if word.group().startswith(self._beginnings):
                is_said[word.start() : word.end()] = b"\1" * len(word.group())
        return sum(is_said) / (len(letters) or 1)


def _unified(text: str) -> str:
    return text.casefold() if text.isascii() else unified_text(text)


def joined(name: str) -> str:
    """Return a name without what separates its words, unified: LazyGraphRAG and Lazy GraphRAG are one."""
    return _words(name)[1]


@lru_cache(1000)
def _words(name: str) -> tuple[tuple[str, ...], str]:
    """Return the words of a name, unified, and these as one: the same names are near most questions of a session."""
    words = tuple(_WORD.findall(_unified(name)))
    return words, "".join(words)


def _having(form: str, texts: str, starts: list[int], *, at_beginnings: bool) -> Iterator[int]:
    """Yield the numbers of the texts that have a form, `at_beginnings` of words or anywhere.

    A text is searched to the first, and a word once: hostile texts have a form a million times.

    `texts`: one after the other, a line break between two.
    `starts`: where each begins, and the end.
    """
    place = texts.find(form)
    while place >= 0:
        if at_beginnings and place and texts[place - 1].isalnum():
            gap = _GAP.search(texts, place)
            place = texts.find(form, gap.end()) if gap else -1
            continue
        number = bisect_right(starts, place) - 1
        yield number
        place = texts.find(form, starts[number + 1])


# How much more a word of the query counts than one of the passage beside it: Query2doc (arXiv 2303.07678, section 2).
QUERY_WEIGHT = 5
# Where fewer chunks match, they are compared with some that do not: so many in all.
LEAST_COMPARED = 100
# Words of a query about the whole, as a share by idf, that a chunk may have by chance.
MOST_SHARED = 0.5
# What a question about the whole calls it, and all other words that such a question is made of.
_WHOLE = """
collection corpus dataset documents document texts text files archive library knowledge base themes theme topics topic subjects
subject summary overview contents content everything
sammlung korpus dokumente dokument dokumenten texte texten unterlagen archiv themen thema inhalt überblick zusammenfassung alles
fichiers bibliothèque thèmes thème sujets sujet résumé aperçu contenu colección documentos textos archivos temas tema resumen
contenido raccolta documenti testi temi argomenti riassunto contenuto coleção coletânea arquivos tópicos resumo conteúdo
verzameling documenten teksten bestanden onderwerpen samenvatting inhoud kolekcja dokumenty teksty tematy streszczenie
коллекция документы тексты темы содержание обзор コレクション 文書 資料 ドキュメント テーマ 概要 要約 内容 全体
文档 文檔 文件 资料 主题 主題 摘要 概述 全部
"""
_BESIDE = """
main major key overall general central important most about contain cover discuss deal describe tell give summarize summarise
list show name explain whole entire all short brief idea point kind sort mainly hauptthemen wichtigsten wichtig handeln geht
enthalten behandeln beschreiben fasse zusammen ganze gib nenne principaux principales parle parlent traite contient donne
trata tratan contiene resume dame principali parla parlano tratta riassumi principais fala falam contém
belangrijkste gaat gaan bevat vat główne dotyczy główny основные главные 主な 主要 主 何 教える 什么 甚麼 什麼 讲 講 有 哪些
"""
_NOUN = re.compile("|".join(sorted(map(re.escape, _WHOLE.split()), key=len, reverse=True)), re.IGNORECASE)
# Chunks whose language a session caches.
MAX_LANGUAGES = 20_000


@timed("bm25")
def bm25(query: Query, limit: int, *, with_passage: bool = False) -> Ranking:
    """Rank chunks by Okapi BM25 (k1 1.5, b 0.75) of the query's terms; exact at every moment.

    `with_passage`: also of the terms of a passage that a model wrote, if there is one (HyDE without vectors).
    """
    terms: dict[str, int] = query.terms
    if with_passage and query.passage is not None:
        passage = query.lexemes(query.passage)
        terms = {term: QUERY_WEIGHT * terms.get(term, 0) + passage.get(term, 0) for term in terms | passage}
    if not terms or limit <= 0:
        return Ranking.empty("bm25")
    index = query.bm25_index("chunk")
    ids, scores = index.search(terms, limit, documents=query.visible, idf=query.options.bm25_idf)
    if not len(ids):
        return Ranking("bm25", ids, scores, coverage=_coverage(query, index, terms, ids))
    zeros = LEAST_COMPARED - len(ids) if len(ids) < min(limit, LEAST_COMPARED) else 0
    return Ranking("bm25", ids, scores, zeros=zeros, coverage=_coverage(query, index, terms, np.sort(ids)))


@once
def shared_words(query: Query) -> SharedWords:
    """Return the query's lexemes with their idf, for matching in sentences.

    A lexeme that no chunk has is another spelling, or distinguishes no sentence; a named stop word matches no sentence in
    this form. Nor do small words of the query's language distinguish any.
    """
    index = query.bm25_index("chunk")
    every, telling = query.terms_by_language, query.telling_terms_by_language(query.text)
    terms = query.terms.keys() - (set[str]().union(*every) - set[str]().union(*telling))
    frequencies, (count, _) = index.document_frequencies(sorted(terms)), index.statistics()
    return SharedWords(
        {term: idf("lucene", count, df) for term, df in frequencies.items() if df and not is_named_stop_word(term)}
    )


@once
def asks_for_the_whole(query: Query) -> bool:
    """Whether a query is made of words that ask for the whole, such as "What are the main themes?"."""
    return bool(_NOUN.search(query.text)) and query.terms.keys() <= query.lexemes(f"{_WHOLE} {_BESIDE}").keys()


@once
def is_about_the_whole(query: Query) -> bool:
    """Whether a query names nothing that texts are about: no entity, and no chunk has more than half of its words, by idf.

    So "What are the main themes?" asks for every theme, as does any question made of such words alone, though a text may
    have them. If nothing can be found in its language, it asks for nothing.
    """
    if not query.dense_works and language_of_silence(query) is not None:
        return False
    if asks_for_the_whole(query):
        return True
    ids = np.sort(bm25(query, LEAST_COMPARED).ids[:LEAST_COMPARED])
    if len(ids) and _shares(query, query.bm25_index("chunk"), query.terms, ids).max() > MOST_SHARED:
        return False
    # What a question asks of a name may stand in other words, or in several chunks.
    return not graph_of(query).named(query.run_keys)


def _coverage(query: Query, index: BM25Index, terms: dict[str, int], ranked: Ids) -> Coverage:
    """Return how much of the query BM25 knows in texts like each chunk; for chunks in other languages the rest is left to
    others.

    That is the share of the terms, weighted by idf, in the chunk of `ranked` (ascending) that has most: 1 if one has all of
    them. If a question in another language shares one word with a chunk, that is little, and other chunks of that language
    lack the words because of their language alone.
    """
    shares = functools.cache(lambda: _shares(query, index, terms, ranked))

    # A fusion asks for the same chunks twice: of words, and of the walk that begins at them.
    @functools.cache
    def known(of_chunks: bytes) -> tuple[Scores, Flags]:
        chunks: Ids = np.frombuffer(of_chunks, np.int64)
        foreign = foreign_chunks(query, union(ranked, chunks), may_be=True)
        is_foreign = within(chunks, foreign)
        best_foreign = shares()[within(ranked, foreign)].max(initial=0.0)
        return np.where(is_foreign, best_foreign, shares().max(initial=0.0)), is_foreign

    return lambda chunks: known(chunks.tobytes())


def foreign_chunks(query: Query, chunks: Ids, *, may_be: bool = False) -> Ids:
    """Return those of `chunks` that are in none of the query's languages, judged by their script; ascending.

    `may_be`: include uncertain ones. Latin script serves many languages, and a corpus whose embedder knows more than
    English probably has several.
    """
    if query.corpus.options.language != "auto":
        return np.empty(0, np.int64)
    languages, own = _languages(query, chunks.tolist()), {None, *query.languages}
    if may_be and _is_multilingual(query):
        own.discard("en")
    return np.array([chunk for chunk in chunks.tolist() if languages.get(chunk) not in own], np.int64)


def _is_multilingual(query: Query) -> bool:
    model = query.corpus.options.embedding
    return model.local and LANGUAGES[model.model] >= DETECTED


def _languages(query: Query, chunks: list[int]) -> dict[int, str]:
    """Return {chunk: language}, at least of `chunks`. Cached: it never changes, and a query may ask for the same ones twice."""
    key = "languages of chunks", query.corpus.id
    languages: dict[int, str] = cache.get(query.corpus, key) or {}
    missing = [chunk for chunk in chunks if chunk not in languages]
    if missing:
        if len(languages) + len(missing) > MAX_LANGUAGES:
            languages, missing = {}, chunks
        sql = "SELECT c.id, c.language FROM graphrag.chunks c WHERE c.id = ANY ($1)"
        languages |= {row["id"]: sys.intern(row["language"]) for row in query.db.query(sql, ["int8[]"], [missing])}
        if query.corpus.revision is not None:
            cache.put(query.corpus, key, languages, 100 * len(languages))
    return languages


def answered_rest(query: Query, chunks: Ids, first: Ids) -> NDArray[np.float64]:
    """Return (first, chunks): the share of the query's words that each of the first chunks lacks and that each chunk has."""
    rests = np.zeros((len(first), len(chunks)))
    for weights, has_term in _term_weights(query, query.bm25_index("chunk"), query.terms, np.append(first, chunks)):
        lacking = weights * ~has_term[:, : len(first)].T
        totals = lacking.sum(axis=1, keepdims=True)
        rests = np.maximum(rests, lacking @ has_term[:, len(first) :] / np.where(totals > 0, totals, 1.0))
    return rests


def _shares(query: Query, index: BM25Index, terms: dict[str, int], chunks: Ids) -> Scores:
    """Return the share of the terms, weighted by idf, that each chunk has, (n,). If the query may be in several languages,
    the best counts.
    """
    shares = np.zeros(len(chunks))
    for weights, has_term in _term_weights(query, index, terms, chunks):
        shares = np.maximum(shares, weights @ has_term / weights.sum())
    return shares


def _term_weights(
    query: Query, index: BM25Index, terms: dict[str, int], chunks: Ids
) -> Iterator[tuple[Scores, NDArray[np.bool_]]]:
    """Yield by language of the query the idf of its terms, (terms,), 0 of others, and which chunks have them, (terms, n)."""
    count, _ = index.statistics()
    lexemes = sorted(terms)
    frequencies = index.document_frequencies(lexemes)
    weights = np.array([idf("lucene", count, frequencies[lexeme]) for lexeme in lexemes])
    occurrences, _ = index.term_counts(lexemes, chunks)
    for own_terms in query.terms_by_language:
        own_weights = weights * np.array([lexeme in own_terms for lexeme in lexemes])
        if own_weights.any():
            yield own_weights, occurrences > 0
