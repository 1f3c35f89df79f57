"""Recorded output of real models, found by the document or the question that stands verbatim in the messages."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_PIECES = re.compile(r"\n|(?<=[.!?。！？])\s+")
_ANCHOR = 32
_TUPLE = "<|#|>"


class Recorded:
    """Answers as function of the messages, for `Endpoint.reply`.

    A document's text (whole, or a chunk of it): its extraction, as JSON, or in LightRAG's rows where the prompt speaks of
    ``<|#|>``; a second extraction round (gleaning): nothing more. A question: its keywords; with documents: its answer.
    Anything else (description summaries): the beginning of what was asked to be summarised.

    Parameters
    ----------
    data : Path
        The folder of real data (``lihua-world/``, ``musique/``).
    """

    def __init__(self, data: Path) -> None:
        self._texts: list[str] = []
        self._items: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = []
        self._anchors: dict[str, list[int]] = defaultdict(list)
        self._keywords: dict[str, dict[str, Any]] = {}
        self._answers: dict[str, str] = {}
        self._by_end: dict[str, list[str]] = defaultdict(list)
        lihua, musique = data / "lihua-world", data / "musique"
        for record, text in _joined(lihua / "docs.jsonl", lihua / "extraction.jsonl"):
            self._add(text, record["entities"], record["relationships"])
        for record, text in _joined(musique / "docs.jsonl", musique / "openie.jsonl"):
            self._add(text, *_from_triples(record))
        words = {record["id"]: record for record in _lines(lihua / "keywords_dev.jsonl")}
        for folder in (lihua, musique):
            for query in _lines(folder / "queries_dev.jsonl"):
                self._answers[query["question"]] = query["answer"]
                self._by_end[query["question"][-_ANCHOR:]].append(query["question"])
                self._keywords[query["question"]] = words.get(query["id"]) or _by_capitals(query["question"])

    def _add(self, text: str, entities: list[dict[str, Any]], relationships: list[dict[str, Any]]) -> None:
        number = len(self._texts)
        self._texts.append(text.strip())
        self._items.append((entities, relationships))
        for anchor in {anchor for _, anchor in _anchors(text)}:
            self._anchors[anchor].append(number)

    def __call__(self, messages: Sequence[dict[str, Any]]) -> str:
        """Return the recorded answer to a conversation."""
        text = "\n".join(str(message["content"]) for message in messages if message["role"] != "assistant")
        rows = _TUPLE in text
        if any(message["role"] == "assistant" for message in messages) and self._question(text) is None:
            return "<|COMPLETE|>" if rows else '{"entities": [], "relationships": [], "claims": []}'
        document, question = self._document(text), self._question(text)
        if question is not None:
            if document is None and "keyword" in text.lower():
                return json.dumps(self._keywords[question], ensure_ascii=False)
            return f"{self._answers[question]} [1]"
        if document is None:
            return " ".join(str(messages[-1]["content"])[-300:].split())
        entities, relationships = self._part(document, text)
        if rows:
            return as_rows(entities, relationships)
        reply = {"entities": entities, "relationships": relationships, "claims": []}
        return json.dumps(reply, ensure_ascii=False)

    def keywords(self, question: str) -> dict[str, Any]:
        """Return the recorded keywords of a question: low_level_keywords, high_level_keywords, entities, answer_types."""
        return self._keywords[question]

    def _question(self, text: str) -> str | None:
        at = text.find("?")
        while at >= 0:
            for question in self._by_end.get(text[max(at + 1 - _ANCHOR, 0) : at + 1], ()):
                if question in text:
                    return question
            at = text.find("?", at + 1)
        return None

    def _document(self, text: str) -> int | None:
        """The document of which most pieces stand in the text."""
        votes: Counter[int] = Counter()
        for piece, anchor in _anchors(text):
            for number in self._anchors.get(anchor, ()):
                if piece in self._texts[number]:
                    votes[number] += len(piece)
        # A piece may be shared by several documents, or end where its chunk does: the one that is there as a whole wins.
        best = max(votes, key=lambda number: (self._texts[number] in text, votes[number]), default=None)
        if best is None:
            # The prompt puts words of its own before the text, on the same line.
            windows = (self._anchors.get(text[at : at + _ANCHOR]) for at in range(len(text) - _ANCHOR + 1))
            best = next((numbers[0] for numbers in windows if numbers), None)
        return best

    def _part(self, number: int, text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """All that was recorded of a document, or of a part of it what the part names."""
        entities, relationships = self._items[number]
        if self._texts[number] in text:
            return entities, relationships
        return (
            [entity for entity in entities if entity["name"] in text],
            [
                relationship
                for relationship in relationships
                if relationship["source"] in text and relationship["target"] in text
            ],
        )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _joined(documents: Path, records: Path) -> Iterator[tuple[dict[str, Any], str]]:
    texts = {document["id"]: document["text"] for document in _lines(documents)}
    for record in _lines(records):
        yield record, texts[record["id"]]


def _anchors(text: str) -> Iterator[tuple[str, str]]:
    """Sentences and lines long enough to be telling, each with its beginning."""
    for piece in _PIECES.split(text):
        piece = piece.strip()
        if len(piece) >= _ANCHOR:
            yield piece, piece[:_ANCHOR]


def _from_triples(record: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Open information extraction as the peer's measurement renders it (../shared/bench/peer_lightrag.py, ``rows``)."""
    entities = [
        {"name": name, "type": "concept", "description": f"{name} is mentioned."} for name in record["entities"]
    ]
    relationships = [
        {"source": s, "target": o, "keywords": [r], "description": f"{s} {r} {o}.", "strength": 1}
        for s, r, o in (triple for triple in record["triples"] if len(triple) == 3)
        if s and o and s != o
    ]
    return entities, relationships


def as_rows(entities: list[dict[str, Any]], relationships: list[dict[str, Any]]) -> str:
    """Return what was extracted in the rows that LightRAG asks for."""
    rows = [("entity", entity["name"], entity["type"], entity["description"]) for entity in entities]
    relations = [
        ("relation", entity["source"], entity["target"], ", ".join(entity["keywords"]), entity["description"])
        for entity in relationships
    ]
    return "\n".join(_TUPLE.join(row) for row in [*rows, *relations]) + "\n<|COMPLETE|>"


def _by_capitals(question: str) -> dict[str, Any]:
    """Keywords of a question without recorded ones, as the peer's measurement makes them."""
    words = re.findall(r"[A-Z]\w+", question) or [question]
    return {"low_level_keywords": words, "high_level_keywords": [question], "entities": words, "answer_types": []}
