"""Real Japanese and Chinese: Debian's manual pages, ingested whole and found by names, numbers and what they say."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.manpages import Page, pages
from tests.runtime.cluster import Database, Runtime
from tests.sql.ingest import canonical, keys, put, rows, search, searched_corpus, statuses, value, work

LANGUAGES = {"ja": "ja", "zh_CN": "zh"}
of_languages = pytest.mark.parametrize("language", ["ja", pytest.param("zh_CN", marks=pytest.mark.slow)])
COUNT = 16
# Half width kana to what NFKC makes of them, the other way round.
HALF_WIDTH = {
    unicodedata.normalize("NFKC", kana + mark): kana + mark
    for kana in map(chr, range(0xFF66, 0xFF9E))
    for mark in ("\uff9f", "\uff9e", "")
    if len(unicodedata.normalize("NFKC", kana + mark)) == 1
}


@pytest.fixture(scope="module")
def manual(runtime: Runtime) -> dict[str, list[Page]]:
    """Pages of middling length, spread over each language's manual; of traditional Chinese all."""
    every = {"ja": 6, "zh_CN": 4, "zh_TW": 1}
    result = {language: pages(runtime.run, language, every=every[language]) for language in every}
    for language in LANGUAGES:
        middling = [page for page in result[language] if 500 <= len(page.content) <= 1500]
        assert len(middling) >= COUNT
        result[language] = middling[:: len(middling) // COUNT][:COUNT]
    return result


class Corpora(dict[str, str]):
    """Corpus of each language that is asked for."""

    def __init__(self, db: Database, manual: dict[str, list[Page]]) -> None:
        super().__init__()
        self._db, self._manual = db, manual

    def __missing__(self, language: str) -> str:
        self[language] = searched_corpus(self._db)
        for page in self._manual[language]:
            put(self._db, self[language], page.key, page.content, page.title)
        work(self._db)
        return self[language]


@pytest.fixture(scope="module")
def corpora(module_db: Database, manual: dict[str, list[Page]]) -> dict[str, str]:
    return Corpora(module_db, manual)


def plain(page: Page) -> str:
    return unicodedata.normalize("NFKC", f"{page.title}\n{page.content}")


def only_once(candidates: list[Page], pattern: str, each: int) -> list[tuple[str, str]]:
    """(word, key of the one page it is in) of `each` words of every page that match and are in no other."""
    words = {page.key: set(re.findall(pattern, plain(page))) for page in candidates}
    count = Counter(word.casefold() for own in words.values() for word in own)
    chosen = {key: [word for word in sorted(own) if count[word.casefold()] == 1][:each] for key, own in words.items()}
    return [(word, key) for key, own in chosen.items() for word in own]


@of_languages
def test_every_page_is_read_as_its_language_and_nothing_of_it_is_lost(
    module_db: Database, manual: dict[str, list[Page]], corpora: dict[str, str], language: str
) -> None:
    corpus = corpora[language]
    assert set(statuses(module_db, corpus).values()) == {"indexed"}
    chunks = rows(
        module_db,
        "SELECT d.source_key, string_agg(substr(c.content, 1 + c.own_offset - c.start_offset), '' ORDER BY c.ordinal),"
        " array_agg(DISTINCT c.language), bool_and(length(c.content) = c.end_offset - c.start_offset)"
        " FROM graphrag.chunks c JOIN graphrag.documents d ON d.id = c.document_id WHERE d.corpus = %s GROUP BY 1",
        corpus,
    )
    assert {key: text for key, text, *_ in chunks} == {page.key: page.content for page in manual[language]}
    assert all(ok for *_, ok in chunks)
    read_as = Counter(code for _, _, codes, _ in chunks for code in codes)
    # What nobody has translated is English.
    assert read_as[LANGUAGES[language]] >= 0.8 * sum(read_as.values())


WORDS = {
    # Names of products, commands and constants; numbers; a letter before or after would make another word.
    "latin": r"(?<![\w./:@=<\\-])[A-Za-z]{5,}(?![\w./:@=>-])",
    "numbers": r"(?<![\w./:@=,\\-])\d{3,}(?![\w./:@=,-])",
    "katakana": r"(?<![ァ-ヺー])[ァ-ヺー]{5,}(?![ァ-ヺー])",
}


@pytest.mark.parametrize(
    ("language", "kind"),
    [
        *(("ja", kind) for kind in WORDS),
        *(pytest.param("zh_CN", kind, marks=pytest.mark.slow) for kind in ("latin", "numbers")),
    ],
)
def test_bm25_finds_names_and_numbers_in_full_and_half_width(
    module_db: Database, manual: dict[str, list[Page]], corpora: dict[str, str], language: str, kind: str
) -> None:
    asked = only_once(manual[language], WORDS[kind], 3)
    stop_words = "SELECT array_agg(w) FROM unnest(%s::text[]) AS w WHERE to_tsvector('english', w) = ''"
    unsought = value(module_db, stop_words, [word for word, _ in asked]) or []
    asked = [(word, key) for word, key in asked if word not in unsought]
    assert len(asked) >= 5
    for word, key in asked:
        other = "".join(HALF_WIDTH.get(c, chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c) for c in word)
        assert other != word
        for query in (word, other):
            assert key in keys(search(module_db, query, corpora[language], "bm25", top_k=COUNT)), query


@of_languages
def test_every_page_has_names_and_compound_nouns(
    module_db: Database, manual: dict[str, list[Page]], corpora: dict[str, str], language: str
) -> None:
    result: dict[str, set[str]] = {page.key: set() for page in manual[language]}
    for key, name in rows(
        module_db,
        "SELECT d.source_key, m.name FROM graphrag.entity_mentions m"
        " JOIN graphrag.documents d ON d.id = m.document_id WHERE d.corpus = %s",
        corpora[language],
    ):
        result[key].add(name)
    wide = {key: {name for name in names if re.search("[\u3041-\u9fff]", name)} for key, names in result.items()}
    assert min(map(len, result.values())) >= 3
    # Some pages are little more than headings and options, of which no concepts are made; nor are entities of passing words.
    assert sum(len(names) >= 4 for names in wide.values()) >= 0.5 * COUNT
    by_key = {page.key: unicodedata.normalize("NFKC", page.content + page.title) for page in manual[language]}
    for key, names in wide.items():
        flat = "".join(by_key[key].split())
        assert all("".join(unicodedata.normalize("NFKC", name).split()) in flat for name in names)


def recall(db: Database, corpus: str, questions: Mapping[str, str], mode: str) -> float:
    """Share of the questions whose page is among the first ten."""
    hits = [key in keys(search(db, text, corpus, mode, top_k=10)) for key, text in questions.items()]
    return sum(hits) / len(hits)


@pytest.mark.parametrize("mode", ["naive", "bm25", "hybrid"])
@of_languages
def test_what_a_page_is_about_finds_it(
    module_db: Database, manual: dict[str, list[Page]], corpora: dict[str, str], language: str, mode: str
) -> None:
    questions = {page.key: page.description for page in manual[language]}
    assert recall(module_db, corpora[language], questions, mode) >= 0.8


@pytest.mark.slow
def test_traditional_questions_find_simplified_pages(
    module_db: Database, manual: dict[str, list[Page]], corpora: dict[str, str]
) -> None:
    own = {page.key for page in manual["zh_CN"]}
    questions = {page.key: page.description for page in manual["zh_TW"] if page.key in own}
    assert len(questions) >= 12
    assert recall(module_db, corpora["zh_CN"], questions, "bm25") >= 0.8


@of_languages
def test_the_order_of_the_pages_says_nothing(module_db: Database, manual: dict[str, list[Page]], language: str) -> None:
    few = sorted(manual[language], key=lambda page: len(page.content))[:4]
    plans: list[Any] = []
    for order in (few, few[::-1]):
        # The first page may be one that nobody has translated, and would choose otherwise.
        corpus = searched_corpus(module_db, embedding={"model": "multilingual-e5-small"})
        for page in order:
            put(module_db, corpus, page.key, page.content, page.title)
            work(module_db)
        plans.append(canonical(module_db, corpus, (few[0].description, few[-1].description)))
    assert plans[0] == plans[1]
