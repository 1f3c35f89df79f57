"""A query as the retrievers see it: its text, terms, vector, keywords, and which documents its caller may see."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from pg_graphrag import bounds
from pg_graphrag.access.caller import Caller
from pg_graphrag.corpus.corpora import Corpus, find
from pg_graphrag.corpus.options import Embedding
from pg_graphrag.embedding import local_embedder
from pg_graphrag.embedding.text import vector_text
from pg_graphrag.model_access.limits import MAX_UNDERSTOOD
from pg_graphrag.model_access.models import Models
from pg_graphrag.numeric import np
from pg_graphrag.retrieval.bm25 import BM25Index
from pg_graphrag.retrieval.document_languages import any_in
from pg_graphrag.retrieval.options import SearchOptions
from pg_graphrag.retrieval.request import Documents, Request
from pg_graphrag.retrieval.understanding import Understanding, noun_phrases, understand
from pg_graphrag.server import Database
from pg_graphrag.text.concepts import key
from pg_graphrag.text.keywords import themes
from pg_graphrag.text.languages import REGCONFIG
from pg_graphrag.text.lexical import lexical, query_languages, spelled_otherwise

P = ParamSpec("P")
T = TypeVar("T")

# A phrase of a question that could be an entity has at most this many words (or characters, where words are not spaced).
MAX_PHRASE_WORDS = 6
MAX_PHRASE_CHARACTERS = 12
# Names are looked up near so many keywords; the very names are found for all.
MAX_KEYWORDS = 8
# A question names few things, and asks for few kinds of them (MiniRAG, arXiv 2501.06713).
MAX_ENTITIES = 5
MAX_TYPES = 3

# SQL: keys, and where aliases of theirs lead.
LED = (
    "({keys} || ARRAY(SELECT a.entity_key FROM graphrag.aliases a"
    ' WHERE a.corpus_id = $1 AND a.key = ANY ({keys} COLLATE "C"))) COLLATE "C"'
)
# Query vectors a session keeps: a few hundred kilobytes.
MAX_EMBEDDED = 256
# By model, role and text: what an endpoint is paid for shows in the usage of who asks. The local model costs nobody anything.
_embedded: dict[tuple[Embedding, str, str], Any] = {}

# Compiled where it is met: that takes 2 ms.
_HAN_KANA = r"[぀-ヿ㐀-鿿豈-﫿々ー]+"


def forget_vectors() -> None:
    """Forget the session's query vectors, so that a measured search embeds its query as a new one would be."""
    _embedded.clear()


def once(read: Callable[Concatenate["Query", P], T]) -> Callable[Concatenate["Query", P], T]:
    """Have something read once for each query; arguments besides must be hashable."""

    @wraps(read)
    def known(query: "Query", /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (read, args, *kwargs.items())
        if key not in query.memo:
            query.memo[key] = read(query, *args, **kwargs)
        return cast(T, query.memo[key])

    return known


@dataclass(frozen=True, eq=False)
class Query:
    """A request as retrievers read it; each read is made once.

    `notes`: what `explain` says of the whole search; `usage`: what models at endpoints came to; `said`: what models made of the
    request, by task.
    """

    request: Request
    models: Models
    documents: Documents
    notes: dict[str, Any] = field(default_factory=dict)
    usage: list[dict[str, Any]] = field(default_factory=list)
    said: dict[str, Any] = field(default_factory=dict)
    memo: dict[Any, Any] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, db: Database, request: Request) -> "Query":
        """Return the query of a request."""
        return cls(request, Models(db, request.corpus, request.caller), Documents(db, request))

    def asking(self, text: str) -> "Query":
        """Return the same search with another text, and with what is known of it."""
        return replace(self, request=replace(self.request, text=text))

    def about(self, text: str, passage: str | None = None) -> "Query":
        """Return a search with another text, which noun phrases are read off: no further model is asked.

        `passage`: one that could answer it.
        """
        options = replace(self.options, query_entities=None)
        said = {"keywords": noun_phrases(self.corpus, text)} | ({"hyde": passage} if passage is not None else {})
        return self._beside(replace(self.request, text=text, options=options, low=None, high=None, beside=None), said)

    def themed(self, text: str) -> "Query":
        """Return a search for a theme of this one, which is embedded with it."""
        low, high = self.low_level, self.high_level
        return self._beside(replace(self.request, text=text, low=low, high=high, beside=self.text), {})

    def _beside(self, request: Request, said: dict[str, Any]) -> "Query":
        return Query(request, self.models, self.documents, usage=self.usage, said=said)

    def existing(self) -> "Query":
        """Return the same search among the documents that exist: some may have been deleted just now."""
        request = replace(self.request, existing_only=True)
        return replace(self, request=request, documents=Documents(self.db, request))

    @property
    def db(self) -> Database:
        """The database of the session."""
        return self.models.db

    @property
    def corpus(self) -> Corpus:
        """The corpus that is searched."""
        return self.request.corpus

    @property
    def caller(self) -> Caller:
        """Who asks."""
        return self.request.caller

    @property
    def text(self) -> str:
        """The words."""
        return self.request.text

    @property
    def options(self) -> SearchOptions:
        """The options."""
        return self.request.options

    @property
    def visible(self) -> Any:
        """Sorted int64 ids of the documents that may be searched, or None when that is the whole corpus."""
        return self.documents.ids

    @property
    def visible_ids(self) -> list[int] | None:
        """`visible` as a SQL parameter."""
        return self.documents.id_list

    @property
    def is_closed(self) -> bool:
        """Whether documents may be hidden from the caller: what tells of all together, communities, is closed to him."""
        return self.caller.documents is not None

    @property
    def understanding(self) -> Understanding | None:
        """What the request was understood to ask for, where that was read already."""
        found: Understanding | None = self.said.get("keywords")
        return found

    @property
    def passage(self) -> str | None:
        """A passage that could answer it (HyDE), where a model wrote one."""
        found: str | None = self.said.get("hyde")
        return found

    @cached_property
    def languages(self) -> list[str]:
        """Languages the query's text is tokenised under."""
        language = self.corpus.options.language
        return query_languages(self.text) if language == "auto" else [language]

    @cached_property
    def terms(self) -> dict[str, int]:
        """Lexemes of the query and how often each occurs, tokenised as the documents are."""
        return self.lexemes(self.text)

    def lexemes(self, text: str) -> dict[str, int]:
        """Return {lexeme: occurrences} of any text, tokenised as the documents are; of its names, the other spellings too."""
        if text not in self._known:
            # With it those that will be wanted next: a statement takes longer than what it has to do.
            keywords = (
                [", ".join(given) for given in (self.request.low, self.request.high) if given] if self.described else []
            )
            wanted = [one for one in dict.fromkeys((text, self.text, *keywords)) if one not in self._known]
            self._known.update(self._lexemes(wanted))
        return self._known[text]

    @cached_property
    def _known(self) -> dict[str, dict[str, int]]:
        return {}

    def _lexemes(self, texts: list[str]) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {text: {} for text in texts}
        widened = [f"{text}\n{other}" if (other := spelled_otherwise(text)) else text for text in texts]
        for language in self.languages:
            for row in self.db.query(
                "SELECT u.place::int, t.lexeme, pg_catalog.cardinality(t.positions) AS tf"
                "  FROM pg_catalog.unnest($2) WITH ORDINALITY AS u (words, place)"
                " CROSS JOIN LATERAL pg_catalog.unnest(pg_catalog.to_tsvector($1::regconfig, u.words)) t",
                ["text", "text[]"],
                ["pg_catalog." + REGCONFIG[language], [lexical(text, language) for text in widened]],
            ):
                lexemes = found[texts[row["place"] - 1]]
                lexemes[row["lexeme"]] = max(lexemes.get(row["lexeme"], 0), row["tf"])
        return found

    @cached_property
    def vector(self) -> Any:
        """The query's vector, (dimensions,) float32; with a passage the mean of both (HyDE, arXiv 2212.10496, eq. 8)."""
        if self.passage is None:
            return self.embed([self.text])[0]
        mean = self.embed([self.text, self.passage]).mean(axis=0)
        return mean / (np.linalg.norm(mean) or 1.0)

    @cached_property
    def vector_text(self) -> str:
        """The query's vector as pgvector reads it."""
        return vector_text(self.vector)

    def embed(self, texts: list[str]) -> Any:
        """Return (texts, dimensions) float32; what the session embedded lately is not embedded again.

        Locally one by one: in a batch the last bits depend on the company, and results would on what a session asked
        before. At an endpoint in one request with what this search will want next.
        """
        model = self.corpus.options.embedding
        role = "" if model.local else self.caller.role
        wanted = [text for text in dict.fromkeys(texts) if (model, role, text) not in _embedded]
        if wanted and model.local:
            for text in wanted:
                _embedded[model, role, text] = local_embedder().embed([text])[0]
        elif wanted:
            wanted = [
                text for text in dict.fromkeys(texts + self._soon()) if text and (model, role, text) not in _embedded
            ]
            made, usage = self.models.embed(wanted)
            self.usage.append(usage)
            _embedded.update({(model, role, text): vector for text, vector in zip(wanted, made, strict=True)})
        vectors = [_embedded[model, role, text] for text in texts]
        while len(_embedded) > MAX_EMBEDDED:
            del _embedded[next(iter(_embedded))]
        return np.stack(vectors)

    def _soon(self) -> list[str]:
        """Texts that the modes embed of a query, as far as its keywords are known."""
        known, given = "_understood" in vars(self), self.request
        low = given.low if given.low is not None else self.low_level if known else []
        high = given.high if given.high is not None else self.high_level if known else []
        named = [] if self.options.profile == "paper" else low[:MAX_KEYWORDS]
        return [self.text, given.beside or "", *named, ", ".join(low), ", ".join(high)]

    @cached_property
    def dense_works(self) -> bool:
        """Whether the corpus' embedder was made for query and documents; of one at an endpoint that is for its owner."""
        return self.corpus.space is not None and self.foreign is None

    @cached_property
    def foreign(self) -> str | None:
        """What the local embedder was not made for: the query's languages, or that of all documents (a query may be a code)."""
        if not self.corpus.options.embedding.local:
            return None
        made_for = local_embedder().languages
        if not made_for.intersection(self.languages):
            return ", ".join(self.languages)
        return None if any_in(self.db, self.corpus, made_for, self.visible_ids) else "the documents' language"

    @once
    def bm25_index(self, kind: str) -> BM25Index:
        """Return the corpus' BM25 index of one kind of item, the same for the whole query."""
        return BM25Index(self.db, self.corpus.id, kind, self.corpus)

    @cached_property
    def low_level(self) -> list[str]:
        """Specific entities: the caller's, else the query's noun phrases and names."""
        return self.request.low if self.request.low is not None else self._understood.low

    @cached_property
    def high_level(self) -> list[str]:
        """Themes: the caller's, else the whole query."""
        if self.request.high is not None:
            return self.request.high
        if self.request.low is not None and self.understanding is None:  # nothing else is to be read off the query
            return themes(self.text[:MAX_UNDERSTOOD])
        return self._understood.high

    @cached_property
    def entities(self) -> list[str]:
        """What the query names: the caller's entities or low-level keywords, else what the query was understood to name."""
        if self.options.query_entities is not None:
            return list(self.options.query_entities)
        if self.request.low is not None:
            return self.request.low[:MAX_ENTITIES]
        return (self._understood.entities or self._understood.low)[:MAX_ENTITIES]

    @cached_property
    def answer_types(self) -> list[str]:
        """Types of entity that the answer may have: the caller's, else what a model read off the query."""
        if self.options.answer_types is not None:
            return list(self.options.answer_types)
        found = self._understood if self.request.low is None else self.understanding
        return found.answer_types[:MAX_TYPES] if found is not None else []

    @cached_property
    def _understood(self) -> Understanding:
        if self.understanding is None:
            given = self.request.low is not None or self.request.high is not None
            self.said["keywords"] = understand(self.models, self.text, given=given)
        found: Understanding = self.said["keywords"]
        self.notes["understanding"] = found.note()
        return found

    @cached_property
    def low_level_keys(self) -> list[str]:
        """Keys of the low-level keywords."""
        return [phrase for phrase in dict.fromkeys(map(key, self.low_level)) if phrase]

    @cached_property
    def phrase_keys(self) -> list[str]:
        """Keys that could name an entity: the low-level keywords and every short run of the query's words."""
        found = dict.fromkeys(self.low_level_keys)
        if self.request.low is None:
            text = self.text[:MAX_UNDERSTOOD]
            words = text.split()
            for size in range(1, MAX_PHRASE_WORDS + 1):
                for at in range(len(words) - size + 1):
                    found[key(" ".join(words[at : at + size]).strip(" ?!.,;:()[]。、？！"))] = None
            for run in () if text.isascii() else re.findall(_HAN_KANA, text):
                for size in range(2, MAX_PHRASE_CHARACTERS + 1):
                    for at in range(len(run) - size + 1):
                        found[key(run[at : at + size])] = None
        return [phrase for phrase in found if phrase]

    @cached_property
    def described(self) -> bool:
        """Whether a model described the corpus' mentions: they have texts of their own to be scored."""
        return self.corpus.options.describes


def query_of(
    db: Database,
    caller: Caller,
    text: str | None,
    options: SearchOptions,
    filter_: str | None = None,
    low: list[str] | None = None,
    high: list[str] | None = None,
    *,
    reads_keywords: bool = True,
) -> Query:
    """Check text and keywords, and return their query. With the owner's rights, as all that follows."""
    corpus = find(db, caller.corpus)
    low, high = bounds.keywords(low, "low_level_keywords"), bounds.keywords(high, "high_level_keywords")
    query = Query.of(db, Request(corpus, caller, bounds.question(text), options, filter_, low, high))
    if (low is not None or high is not None) and reads_keywords:
        query.notes["understanding"] = {"by": "caller"}
    return query
