"""The understanding of a question: keywords, entities and answer types, by one call to a model, or by noun phrases."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.ground.numeric import Vectors
from pg_graphrag.llm.asking.length_limits import MAX_UNDERSTOOD
from pg_graphrag.llm.asking.models import ModelFault, Models
from pg_graphrag.llm.embedding import local_embedder
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.text.concept import Concept
from pg_graphrag.text.words.keywords import keywords

# After failures in a row that took so many seconds, a session does without the model for a while.
MAX_LOST_SECONDS = 5.0
PAUSE_SECONDS = 30.0
# Questions that a session remembers.
_REMEMBERED = 64
# By model and text: what a local model reads in a question, in one pass of its encoder.
_read: dict[tuple[str, str], tuple[Vectors, Sequence[Concept]]] = {}


@dataclass(frozen=True, slots=True)
class Understanding:
    """Keywords, entities and answer types of a question.

    `low` are specific things, `high` themes; `source` is who read them off the question: model, cache (to the owner alone),
    noun phrases or caller. `question` is the question restated where a conversation went before; `reason` is why the
    corpus' model was not used.
    """

    low: list[str]
    high: list[str]
    entities: list[str] = field(default_factory=list)
    answer_types: list[str] = field(default_factory=list)
    source: str = "noun phrases"
    question: str | None = None
    reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)

    def note(self) -> dict[str, str]:
        """Return its part of explain."""
        return {"by": self.source} | ({"reason": self.reason} if self.reason else {})


@dataclass
class _Patience:
    """Until when a model is not asked, and why."""

    lost_seconds: float = 0.0
    until: float = 0.0
    reason: str = ""


# By corpus and role: only the role that got an error may see it as a reason.
_patience: dict[tuple[int, str], _Patience] = {}


def understand(
    models: Models, question: str, *, has_keywords: bool = False, history: Any = None, insist: bool = False
) -> Understanding:
    """Return what `question` asks for; never fails because of a model.

    `has_keywords`: the caller gave keywords: no model is asked; what the caller left out is read off the question.
    `insist`: ask the model even if it failed the session lately.
    """
    corpus, role = models.corpus, models.caller.role
    if has_keywords or not question or not corpus.options.llm.has("keywords"):
        return noun_phrases(corpus, question, "caller" if has_keywords else "noun phrases")
    patience = _patience.setdefault((corpus.id, role), _Patience())
    if patience.until > time.monotonic() and not insist and models.sends:
        return noun_phrases(corpus, question, reason=patience.reason)
    arguments = {"question": question[:MAX_UNDERSTOOD]} | ({"history": history} if history else {})
    start = time.monotonic()
    outcome = models.ask("keywords", arguments)
    if outcome.fault is not None:
        _failed(models.db, outcome.fault, patience, time.monotonic() - start)
        return noun_phrases(corpus, question, reason=outcome.fault.message, usage=outcome.usage)
    if models.sends:
        # Beside a database another call of the process may have done so meanwhile.
        _patience.pop((corpus.id, role), None)
    value = outcome.value
    low, high = value["low_level_keywords"], value["high_level_keywords"]
    if not (low and high):
        own_low, own_high = _keywords(corpus, question)
        low, high = low or value["entities"] or own_low, high or own_high
    return Understanding(
        low=low,
        high=high,
        entities=value["entities"],
        answer_types=value["answer_types"],
        source="cache" if outcome.cached else "model",
        question=value["question"] if history else None,
        usage=outcome.usage,
    )


def _failed(db: Database, fault: ModelFault, patience: _Patience, seconds: float) -> None:
    patience.lost_seconds += seconds
    patience.reason = fault.message
    if patience.lost_seconds >= MAX_LOST_SECONDS:
        patience.lost_seconds, patience.until = 0.0, time.monotonic() + PAUSE_SECONDS
    db.warning(f"the question was read by noun phrases, not by the model: {fault.message}", **fault.fields)


def noun_phrases(
    corpus: Corpus,
    question: str,
    source: str = "noun phrases",
    reason: str | None = None,
    usage: dict[str, Any] | None = None,
) -> Understanding:
    """Read a question without a model."""
    low, high = _keywords(corpus, question)
    return Understanding(low=low, high=high, entities=low, source=source, reason=reason, usage=usage or {})


def _keywords(corpus: Corpus, question: str) -> tuple[list[str], list[str]]:
    language = None if corpus.options.language == "auto" else corpus.options.language
    names = [name for name in names_in(corpus, question) if name.end <= MAX_UNDERSTOOD]
    return keywords(question[:MAX_UNDERSTOOD], language, names)


def question_vector(model: str, text: str) -> Vectors:
    """Return the vector of a question by a local model, (dimensions,)."""
    return _reading(model, text)[0]


def names_in(corpus: Corpus, text: str) -> Sequence[Concept]:
    """Return the names in a question; none where documents' names are read by another model than the session has."""
    from pg_graphrag.llm.embedding.name_tagger import reads_names  # mode bm25 does without

    model = corpus.options.embedding
    return _reading(model.model, text)[1] if reads_names(model.model) and model.reads(text) else ()


def forget_questions() -> None:
    """Forget the session's questions, so that a measured search reads its question as a new one."""
    _read.clear()


def _reading(model: str, text: str) -> tuple[Vectors, Sequence[Concept]]:
    from pg_graphrag.llm.embedding.name_tagger import concepts_of, reads_names  # mode bm25 does without

    if (model, text) not in _read:
        if len(_read) >= _REMEMBERED:
            del _read[next(iter(_read))]
        if reads_names(model):
            _, vectors, readings = next(batch for batch in local_embedder(model).tag_batches([text]) if len(batch[0]))
            _read[model, text] = vectors[0], concepts_of(text, readings[0].names)
        else:
            _read[model, text] = local_embedder(model).embed([text])[0], ()
    return _read[model, text]
