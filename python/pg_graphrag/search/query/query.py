"""A query as retrievers see it: its text, terms, vector, keywords, and which documents its caller may see."""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from pg_graphrag.ground import bounds
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Ids, Vectors, np
from pg_graphrag.index.bm25 import BM25Index
from pg_graphrag.llm.asking.length_limits import MAX_UNDERSTOOD
from pg_graphrag.llm.asking.models import Models
from pg_graphrag.llm.embedding import local_embedder
from pg_graphrag.llm.embedding.vector_text import vector_text
from pg_graphrag.search.query.mode_options import SearchOptions
from pg_graphrag.search.query.understanding import (
    Understanding,
    forget_questions,
    noun_phrases,
    question_vector,
    understand,
)
from pg_graphrag.server import Database, cached_property
from pg_graphrag.server.access.caller import Caller, Documents
from pg_graphrag.server.caches.session_cache import cache
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus
from pg_graphrag.server.corpus.options import Embedding
from pg_graphrag.server.corpus.spaces import any_embedded
from pg_graphrag.server.profile import Profile
from pg_graphrag.text.concept import key
from pg_graphrag.text.languages import LANGUAGES, REGCONFIG
from pg_graphrag.text.letters import han_forms, without_invisible, without_stray_invisible
from pg_graphrag.text.question_language import question_language
from pg_graphrag.text.words.keywords import themes
from pg_graphrag.text.words.search_terms import asked, query_languages, telling

P = ParamSpec("P")
T = TypeVar("T")

# A phrase of a question that could be an entity has at most this many words (or characters, where words are not spaced).
MAX_PHRASE_WORDS = 6
MAX_PHRASE_CHARACTERS = 12
# Keywords whose nearest names are searched; exact names are found for all.
MAX_KEYWORDS = 8
# Entities and answer types of a question, at most (MiniRAG, arXiv 2501.06713).
MAX_ENTITIES = 5
MAX_TYPES = 3

# SQL: keys, and the keys that their aliases lead to.
LED = (
    "({keys} || ARRAY(SELECT a.entity_key FROM graphrag.aliases a"
    ' WHERE a.corpus_id = $1 AND a.key = ANY ({keys} COLLATE "C"))) COLLATE "C"'
)
# Query vectors a session keeps: a few hundred kilobytes.
MAX_EMBEDDED = 256
# A name in a larger share of the chunks, and in more than so many, says little about where to look: a speaker in a
# conversation.
EVERYWHERE, MIN_EVERYWHERE = 0.5, 20
# With the blank behind it, and as a possessive.
_WORD = re.compile(r"(?<![\w'’])[^\W\d_][\w-]*(?:['’]s\b)?\s?")
# By model, role and text: embeddings at an endpoint show in the usage of the caller. For the local model, which is free, the
# role is "".
_embedded: dict[tuple[Embedding, str, str], Vectors] = {}

# Compiled on first use: that takes 2 ms.
_HAN_KANA = r"[぀-ヿ㐀-鿿豈-﫿々ー]+"


def forget_vectors() -> None:
    """Forget the session's query vectors, so that a measured search embeds its query as a new one would be."""
    _embedded.clear()
    forget_questions()


def once(compute: Callable[Concatenate["Query", P], T]) -> Callable[Concatenate["Query", P], T]:
    """Cache the result of a function of a query for this query; other arguments must be hashable."""

    @wraps(compute)
    def wrapper(query: "Query", /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (compute, args, *kwargs.items())
        if key not in query.memo:
            query.memo[key] = compute(query, *args, **kwargs)
        return cast(T, query.memo[key])

    return wrapper


def timed(name: str) -> Callable[[Callable[Concatenate["Query", P], T]], Callable[Concatenate["Query", P], T]]:
    """Count the time of a function of a query for a step."""

    def decorate(function: Callable[Concatenate["Query", P], T]) -> Callable[Concatenate["Query", P], T]:
        @wraps(function)
        def wrapper(query: "Query", /, *args: P.args, **kwargs: P.kwargs) -> T:
            if query.profile is None:
                return function(query, *args, **kwargs)
            with query.profile.step(name):
                return function(query, *args, **kwargs)

        return wrapper

    return decorate


@dataclass(frozen=True, eq=False)
class Query:
    """An immutable request, as retrievers read it; each value is computed once.

    `low`, `high`: keywords that the caller gave; `extra_text`: a further text to embed. `notes`: the part of `explain`
    about the whole search; `usage`: requests to models at endpoints; `model_replies`: by task; `profile`: where the time
    goes, if that was asked for; `warned`: subjects of warnings sent in this search and its variants.
    """

    models: Models
    documents: Documents
    corpus: Corpus
    caller: Caller
    text: str
    options: SearchOptions
    low: list[str] | None = None
    high: list[str] | None = None
    extra_text: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    usage: list[dict[str, Any]] = field(default_factory=list)
    model_replies: dict[str, Any] = field(default_factory=dict)
    profile: Profile | None = None
    warned: set[str] = field(default_factory=set)
    memo: dict[Any, Any] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, db: Database, corpus: Corpus, caller: Caller, text: str = "", **given: Any) -> "Query":
        """Return the query of a text, or of the graph alone."""
        given = {"options": SearchOptions()} | given
        return cls(Models(db, corpus, caller), Documents(db, corpus, caller), corpus, caller, text, **given)

    def asking(self, text: str) -> "Query":
        """Return the same search with another text, keeping everything known."""
        return replace(self, text=text)

    def with_text(self, text: str, passage: str | None = None) -> "Query":
        """Return a search with another text, whose keywords are its noun phrases: no further model is asked.

        `passage`: one that could answer it.
        """
        options = replace(self.options, query_entities=None)
        replies = {"keywords": noun_phrases(self.corpus, text)} | ({"hyde": passage} if passage is not None else {})
        own: dict[str, Any] = {"low": None, "high": None, "extra_text": None, "notes": {}, "model_replies": replies}
        return replace(self, text=text, options=options, **own)

    def themed(self, text: str) -> "Query":
        """Return a search for a theme of this one, which is embedded with it."""
        own: dict[str, Any] = {"low": self.low_level, "high": self.high_level, "notes": {}, "model_replies": {}}
        return replace(self, text=text, extra_text=self.text, **own)

    def warn_once(self, subject: str, message: str, hint: str) -> None:
        """Send a WARNING, unless one of this subject was sent: a search may be made of many."""
        if subject not in self.warned:
            self.warned.add(subject)
            self.db.warning(message, hint=hint)

    def step(self, name: str) -> AbstractContextManager[None]:
        """Count the time inside for a step, where a profile was asked for."""
        return nullcontext() if self.profile is None else self.profile.step(name)

    def profile_notes(self) -> dict[str, Any]:
        """Return {profile_time, and requests where models at endpoints were asked}, where a profile was asked for; else {}."""
        if self.profile is None:
            return {}
        requests = [
            {name: value for name, value in request.items() if name not in ("ended", "seconds")}
            | {
                "started": None
                if request["seconds"] is None
                else self.profile.at(request["ended"] - request["seconds"]),
                "milliseconds": None if request["seconds"] is None else round(1000 * request["seconds"], 2),
            }
            for request in self.models.requests or ()
        ]
        return {"profile_time": self.profile.milliseconds()} | ({"requests": requests} if requests else {})

    def existing(self) -> "Query":
        """Return the same search among the documents that exist: the index may have others."""
        return replace(self, documents=Documents(self.db, self.corpus, self.caller, existing_only=True))

    @property
    def db(self) -> Database:
        """The database of the session."""
        return self.models.db

    @property
    def visible(self) -> Ids | None:
        """Sorted int64 ids of the documents that may be searched, or None when that is the whole corpus."""
        ids: Ids | None = self.documents.ids
        return ids

    @property
    def visible_ids(self) -> list[int] | None:
        """`visible` as a SQL parameter."""
        return self.documents.id_list

    @property
    def removed(self) -> Ids | None:
        """Ids of the documents that wait to be removed, if `visible` is the rest of the corpus. Else None."""
        ids: Ids | None = self.documents.removed
        return ids

    @property
    def is_closed(self) -> bool:
        """Whether documents may be hidden from the caller: he may not read of communities, which describe all documents."""
        return self.caller.documents is not None

    @property
    def understanding(self) -> Understanding | None:
        """The understanding of the request, where it was made already."""
        understanding_: Understanding | None = self.model_replies.get("keywords")
        return understanding_

    @property
    def passage(self) -> str | None:
        """A passage that could answer it (HyDE), where a model wrote one."""
        passage_: str | None = self.model_replies.get("hyde")
        return passage_

    @cached_property
    def languages(self) -> list[str]:
        """Languages the query's text is tokenised under."""
        language = self.corpus.options.language
        return query_languages(self.text) if language == "auto" else [language]

    @cached_property
    def language(self) -> str:
        """The language that its small words tell (ISO 639-1)."""
        known = None if self.corpus.options.language == "auto" else self.corpus.options.language
        return question_language([self.text], known).partition("-")[0]

    @cached_property
    def terms(self) -> dict[str, int]:
        """Lexemes of the query and how often each occurs, tokenised as the documents are."""
        return self.lexemes(self.text)

    def lexemes(self, text: str) -> dict[str, int]:
        """Return {lexeme: occurrences} of any text, tokenised as the documents are; of its names, the other spellings too."""
        if text not in self._lexeme_cache:
            # Texts needed next are included: the overhead of a statement exceeds its work.
            keywords = [", ".join(words) for words in (self.low, self.high) if words and self.is_described]
            new_texts = [item for item in dict.fromkeys((text, self.text, *keywords)) if item not in self._lexeme_cache]
            self._lexeme_cache.update(self._lexemes(new_texts))
        return self._lexeme_cache[text]

    @cached_property
    def _lexeme_cache(self) -> dict[str, dict[str, int]]:
        return {}

    @cached_property
    def terms_by_language(self) -> list[set[str]]:
        """Lexemes of the query under each of its languages, without those of other spellings."""
        return self._terms(self.text)

    def telling_terms_by_language(self, text: str) -> list[set[str]]:
        """Lexemes of the query's text, or of a part of it, without small words of its language; all where no others are left.

        Latin script is stemmed as English, which has other small words.
        """
        shorter = text if self.language == "en" else telling(text, self.language)
        every = self.terms_by_language if text == self.text else self._terms(text)
        if shorter == text:
            return every
        return [some or all_ for some, all_ in zip(self._terms(shorter), every, strict=True)]

    def _terms(self, text: str) -> list[set[str]]:
        return [
            {lexeme for _, lexeme, _ in self._tokenised([asked(text, language, spelled=False)], language)}
            for language in self.languages
        ]

    @timed("bm25")
    def _lexemes(self, texts: list[str]) -> dict[str, dict[str, int]]:
        by_text: dict[str, dict[str, int]] = {text: {} for text in texts}
        for language in self.languages:
            for place, lexeme, tf in self._tokenised([asked(text, language) for text in texts], language):
                lexemes = by_text[texts[place]]
                lexemes[lexeme] = max(lexemes.get(lexeme, 0), tf)
        return by_text

    def _tokenised(self, forms: list[str], language: str) -> Iterator[tuple[int, str, int]]:
        """Yield (place of the text, lexeme, occurrences), of texts as `asked` has them in a language."""
        for row in self.db.query(
            "SELECT u.place::int, t.lexeme, pg_catalog.cardinality(t.positions) AS tf"
            "  FROM pg_catalog.unnest($2) WITH ORDINALITY AS u (words, place)"
            " CROSS JOIN LATERAL pg_catalog.unnest(pg_catalog.to_tsvector($1::regconfig, u.words)) t",
            ["text", "text[]"],
            ["pg_catalog." + REGCONFIG[language], forms],
        ):
            yield row["place"] - 1, row["lexeme"], row["tf"]

    @cached_property
    def embedded_texts(self) -> list[str]:
        """The text, and the text without names that most chunks have, if it has such: they draw its vector to any chunk."""
        words = {match.group() for match in _WORD.finditer(self.text[:MAX_UNDERSTOOD])}
        names = [] if self.options.profile == "paper" else sorted(word for word in words if word[0].isupper())
        lexemes = self._lexemes(names) if names else {}
        if not any(lexemes.values()):
            return [self.text]
        frequencies, count = self._frequencies(sorted(set().union(*lexemes.values())))
        most = max(EVERYWHERE * count, MIN_EVERYWHERE)
        common = {name for name, own in lexemes.items() if own and min(frequencies[lexeme] for lexeme in own) > most}
        rest = _WORD.sub(lambda match: "" if match.group() in common else match.group(), self.text).strip()
        others = self.terms.keys() - set().union(*(lexemes[name] for name in common))
        # "Who is Ann?" asks about nothing else.
        return [self.text, rest] if common and others and any(map(str.isalnum, rest)) else [self.text]

    def _frequencies(self, lexemes: list[str]) -> tuple[dict[str, int], int]:
        """Return how many of the visible chunks have each lexeme, and of how many."""
        index = self.bm25_index("chunk")
        if self.visible is None:
            return index.document_frequencies(lexemes), index.statistics()[0]
        items = index.items_of(self.visible)
        counts, _ = index.term_counts(lexemes, items)
        return dict(zip(lexemes, (counts > 0).sum(axis=1).tolist(), strict=True)), len(items)

    @cached_property
    def vector(self) -> Vectors:
        """The query's vector, (dimensions,) float32: the mean of the vectors of `embedded_texts`; with a passage, the mean
        of that and the passage's (HyDE, arXiv 2212.10496, eq. 8).
        """
        mean: Vectors = self.embed(self.embedded_texts).mean(axis=0)
        if self.passage is not None:
            mean = (mean + self.embed([self.passage])[0]) / 2
        if self.passage is not None or len(self.embedded_texts) > 1:
            mean /= np.linalg.norm(mean) or 1.0
        return mean

    @property
    def has_vector(self) -> bool:
        """Whether its vector is known, or costs no request."""
        model = self.corpus.options.embedding
        texts = self.embedded_texts if self.passage is None else [*self.embedded_texts, self.passage]
        return model.local or all((model, self.caller.role, text) in _embedded for text in texts)

    @cached_property
    def vector_text(self) -> str:
        """The query's vector as pgvector reads it."""
        return vector_text(self.vector)

    @timed("embed")
    def embed(self, texts: list[str]) -> Vectors:
        """Return (texts, dimensions) float32; the session caches the last vectors.

        The local model embeds one by one: in a batch the last bits depend on the other texts, and results would depend on
        earlier queries. An endpoint embeds in one request, with the texts that this search needs next.
        """
        model = self.corpus.options.embedding
        role = "" if model.local else self.caller.role
        vector_of = {text: _embedded[model, role, text] for text in texts if (model, role, text) in _embedded}
        new_texts = [text for text in dict.fromkeys(texts) if text not in vector_of]
        if new_texts and model.local:
            vector_of |= {
                text: question_vector(model.model, text)
                if text in self.embedded_texts
                else local_embedder(model.model).embed([text])[0]
                for text in new_texts
            }
        elif new_texts:
            new_texts = [
                text for text in dict.fromkeys(texts + self._soon()) if text and (model, role, text) not in _embedded
            ]
            new_vectors, usage = self.models.embed(new_texts)
            self.usage.append(usage)
            vector_of |= dict(zip(new_texts, new_vectors, strict=True))
        _embedded.update({(model, role, text): vector for text, vector in vector_of.items()})
        vectors = [vector_of[text] for text in texts]
        while len(_embedded) > MAX_EMBEDDED:
            del _embedded[next(iter(_embedded))]
        return np.stack(vectors)

    def _soon(self) -> list[str]:
        """Return the texts that the modes will embed, as far as the keywords are known."""
        is_understood = self.understanding is not None
        low = self.low if self.low is not None else self.low_level if is_understood else []
        high = self.high if self.high is not None else self.high_level if is_understood else []
        names = [] if self.options.profile == "paper" else low[:MAX_KEYWORDS]
        return [
            *self.embedded_texts,
            self.passage or "",
            self.extra_text or "",
            *names,
            ", ".join(low),
            ", ".join(high),
        ]

    @cached_property
    def dense_works(self) -> bool:
        """Whether the corpus' embedder was made for query and documents; of one at an endpoint that is for its owner.

        Where not, the notes say so.
        """
        if self.why_no_vectors is not None:
            self.notes["dense"] = f"left out: {self.why_no_vectors}"
        return self.corpus.space is not None and self.why_no_vectors is None

    @cached_property
    def why_no_vectors(self) -> str | None:
        """Why the local embedder's vectors say nothing: the query's languages, or all documents (a query may be a code)."""
        model = self.corpus.options.embedding
        if not model.local or self.corpus.space is None:
            return None
        made_for = LANGUAGES[model.model]
        if not made_for.intersection(self.languages):
            return f"the embedder was not made for {', '.join(self.languages)}"
        # For all documents the session caches the result by revision; for a visible part it belongs to this query.
        compute = partial(any_embedded, self.db, self.corpus, made_for, self.visible_ids)
        key = "any embedded", self.corpus.id
        has_vectors = compute() if self.visible is not None else cache.get_or_compute(self.corpus, key, compute)
        if has_vectors:
            return None
        return "no document has words in a language that the embedder was made for"

    @once
    def bm25_index(self, kind: str) -> BM25Index:
        """Return the corpus' BM25 index of one kind of item, the same for the whole query."""
        return BM25Index(self.db, self.corpus.id, kind, self.corpus)

    @cached_property
    def low_level(self) -> list[str]:
        """Specific entities: the caller's, else the query's noun phrases and names."""
        return self.low if self.low is not None else self._read_understanding.low

    @cached_property
    def high_level(self) -> list[str]:
        """Themes: the caller's, else the whole query."""
        if self.high is not None:
            return self.high
        if self.low is not None and self.understanding is None:  # the query is not analysed further
            return themes(self.text[:MAX_UNDERSTOOD])
        return self._read_understanding.high

    @cached_property
    def entities(self) -> list[str]:
        """What the query names: the caller's entities or low-level keywords, else what the query was understood to name."""
        if self.options.query_entities is not None:
            return list(self.options.query_entities)
        if self.low is not None:
            return self.low[:MAX_ENTITIES]
        return (self._read_understanding.entities or self._read_understanding.low)[:MAX_ENTITIES]

    @cached_property
    def answer_types(self) -> list[str]:
        """Types of entity that the answer may have: the caller's, else what a model read off the query."""
        if self.options.answer_types is not None:
            return list(self.options.answer_types)
        understanding = self._read_understanding if self.low is None else self.understanding
        return understanding.answer_types[:MAX_TYPES] if understanding is not None else []

    @cached_property
    def _read_understanding(self) -> Understanding:
        if self.understanding is None:
            has_keywords = self.low is not None or self.high is not None
            with self.step("keywords"):
                self.model_replies["keywords"] = understand(self.models, self.text, has_keywords=has_keywords)
            self.usage.append(self.model_replies["keywords"].usage)
        understanding: Understanding = self.model_replies["keywords"]
        self.notes["understanding"] = understanding.note()
        return understanding

    @cached_property
    def low_level_keys(self) -> list[str]:
        """Keys of the low-level keywords."""
        return [phrase for phrase in dict.fromkeys(map(key, self.low_level)) if phrase]

    @cached_property
    def phrase_keys(self) -> list[str]:
        """Keys that could name an entity: the low-level keywords and every short run of the query's words."""
        runs = self.run_keys if self.low is None else ()
        return [phrase for phrase in dict.fromkeys((*self.low_level_keys, *runs)) if phrase]

    @cached_property
    def run_keys(self) -> list[str]:
        """Keys of every short run of the query's words, for which no model is asked."""
        phrases: dict[str, None] = {}
        text = without_invisible(self.text[:MAX_UNDERSTOOD])
        words = text.split()
        for size in range(1, MAX_PHRASE_WORDS + 1):
            for start in range(len(words) - size + 1):
                phrases[key(" ".join(words[start : start + size]).strip(" ?!.,;:()[]。、？！"))] = None
        for run in () if text.isascii() else re.findall(_HAN_KANA, text):
            for form in (run, *sorted(han_forms(run))):
                for size in range(2, MAX_PHRASE_CHARACTERS + 1):
                    for start in range(len(form) - size + 1):
                        phrases[key(form[start : start + size])] = None
        return [phrase for phrase in phrases if phrase]

    @cached_property
    def is_described(self) -> bool:
        """Whether a model described the corpus' mentions, so that their texts are scored."""
        return self.corpus.options.describes


@once
def visible_digest(query: Query) -> str:
    """Return the hash of the visible documents: the cache key of everything that depends on them."""
    assert query.visible is not None
    return hashlib.sha256(query.visible.tobytes()).hexdigest()


def question(text: str | None, most: int = bounds.MAX_QUESTION) -> str:
    """Return a question in its normal form; 22023 if it is longer than `most` characters."""
    if len(text or "") > most:
        raise GraphRAGError(
            f"the question has {len(text or ''):,} characters, more than {most:,}: {bounds.begin(text)}",
            hint="Ask a shorter question. A text to be searched belongs into the documents.",
        )
    return without_stray_invisible((text or "").strip())


def query_of(
    db: Database,
    caller: Caller,
    text: str | None,
    options: SearchOptions,
    low: list[str] | None = None,
    high: list[str] | None = None,
    *,
    reads_keywords: bool = True,
) -> Query:
    """Check text and keywords, and return their query. With the owner's rights, as all that follows."""
    corpus = find_corpus(db, caller.corpus)
    asked = question(text, bounds.MAX_PROMPT if options.bypass else bounds.MAX_QUESTION)
    has_keywords = low is not None or high is not None
    if has_keywords:
        low, high = bounds.keywords(low, "low_level_keywords"), bounds.keywords(high, "high_level_keywords")
    query = Query.of(db, corpus, caller, asked, options=options, low=low, high=high)
    if has_keywords and reads_keywords:
        query.notes["understanding"] = {"by": "caller"}
    return query
