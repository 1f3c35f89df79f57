"""What a question asks for: its keywords, entities and answer types, by one call to a model, or by noun phrases."""

import json
import time
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag import bounds
from pg_graphrag.access.caller import caller_of
from pg_graphrag.access.entry import as_owner
from pg_graphrag.corpus.corpora import Corpus, find
from pg_graphrag.model_access.limits import MAX_UNDERSTOOD
from pg_graphrag.model_access.models import Models, save_accounts
from pg_graphrag.server import Database
from pg_graphrag.text.keywords import keywords

# A session that lost this much time, in seconds, on failures in a row does without the model for a while.
MAX_LOST_SECONDS = 5.0
PAUSE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Understanding:
    """What a question asks for.

    `low` are specific things, `high` themes; `by` says who read them off the question: model, cache (to the owner alone),
    noun phrases or caller. `question` is the question restated where a conversation went before; `reason` why a model that
    is set was no help.
    """

    low: list[str]
    high: list[str]
    entities: list[str] = field(default_factory=list)
    answer_types: list[str] = field(default_factory=list)
    by: str = "noun phrases"
    question: str | None = None
    reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)

    def note(self) -> dict[str, str]:
        """What explain says of it."""
        return {"by": self.by} | ({"reason": self.reason} if self.reason else {})


@dataclass
class _Patience:
    lost: float = 0.0
    until: float = 0.0
    reason: str = ""


# By corpus and role: a reason is for the role that was told.
_patience: dict[tuple[int, str], _Patience] = {}


def understand(
    models: Models,
    question: str,
    *,
    given: bool = False,
    history: Any = None,
    insist: bool = False,
) -> Understanding:
    """Return what `question` asks for; never fails because of a model.

    Parameters
    ----------
    given : bool
        The caller gave keywords: no model is asked; what the caller left out is read off the question.
    insist : bool
        Ask the model even if it failed the session lately.
    """
    corpus, role = models.corpus, models.caller.role
    if given or not question or not corpus.options.llm.has("keywords"):
        return noun_phrases(corpus, question, "caller" if given else "noun phrases")
    patience = _patience.setdefault((corpus.id, role), _Patience())
    if patience.until > time.monotonic() and not insist and models.sends:
        return noun_phrases(corpus, question, reason=patience.reason)
    arguments = {"question": question[:MAX_UNDERSTOOD]} | ({"history": history} if history else {})
    started = time.monotonic()
    outcome = models.ask("keywords", arguments)
    if "fault" in outcome:
        return _failed(models.db, corpus, question, patience, time.monotonic() - started, outcome)
    if models.sends:
        del _patience[corpus.id, role]
    value = outcome["value"]
    low, high = value["low_level_keywords"], value["high_level_keywords"]
    if not (low and high):
        own_low, own_high = keywords(question[:MAX_UNDERSTOOD], _language(corpus))
        low, high = low or value["entities"] or own_low, high or own_high
    return Understanding(
        low=low,
        high=high,
        entities=value["entities"],
        answer_types=value["answer_types"],
        by="cache" if outcome["cached"] else "model",
        question=value["question"] if history else None,
        usage=outcome["usage"],
    )


def _failed(
    db: Database, corpus: Corpus, question: str, patience: _Patience, seconds: float, outcome: dict[str, Any]
) -> Understanding:
    fault = outcome["fault"]
    patience.lost += seconds
    patience.reason = fault["message"]
    if patience.lost >= MAX_LOST_SECONDS:
        patience.lost, patience.until = 0.0, time.monotonic() + PAUSE_SECONDS
    fields = {name: fault[name] for name in ("detail", "hint") if fault[name]}
    db.warning(f"the question was read by noun phrases, not by the model: {fault['message']}", **fields)
    return noun_phrases(corpus, question, reason=fault["message"], usage=outcome["usage"])


def noun_phrases(
    corpus: Corpus,
    question: str,
    by: str = "noun phrases",
    reason: str | None = None,
    usage: dict[str, Any] | None = None,
) -> Understanding:
    """Read a question without a model."""
    low, high = keywords(question[:MAX_UNDERSTOOD], _language(corpus))
    return Understanding(low=low, high=high, entities=low, by=by, reason=reason, usage=usage or {})


def _language(corpus: Corpus) -> str | None:
    return None if corpus.options.language == "auto" else corpus.options.language


def understand_named(db: Database, question: str | None, corpus: str | None) -> str:
    """Serve graphrag.understand(): the understanding of a question as JSON."""
    caller = caller_of(db, corpus)

    text = bounds.question(question)

    def run() -> Understanding:
        found = find(db, corpus)
        understood = understand(Models(db, found, caller), text, insist=True)
        save_accounts(db, found)
        return understood

    made = as_owner(db, run, writes=True)
    found: dict[str, Any] = {"low_level_keywords": made.low, "high_level_keywords": made.high}
    found |= {"entities": made.entities, "answer_types": made.answer_types}
    return json.dumps(found | made.note(), ensure_ascii=False)
