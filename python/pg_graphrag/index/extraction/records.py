"""Entities, relationships and claims of a chunk, cleaned so that they cannot break a row, an index or a prompt."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.graph.drafts import Claim
from pg_graphrag.server.corpus.extraction_schema import MAX_NAME as MAX_SCHEMA_NAME
from pg_graphrag.server.corpus.extraction_schema import ExtractionSchema, as_value, folded
from pg_graphrag.text.concept import key
from pg_graphrag.text.letters import without_stray_invisible

# Type of a name that occurs as an endpoint only; it loses against any other type.
UNKNOWN = "UNKNOWN"
# Characters. A longer name is a sentence; a longer description has lost its subject.
MAX_NAME = 256
MAX_TYPE = 64
MAX_KEYWORD = 100
MAX_DESCRIPTION = 4000
# Attributes of one entity, and keywords of one relationship.
MAX_ATTRIBUTES = 100
MAX_KEYWORDS = 20
# Facts about one pair of entities.
_MAX_FACTS = 40
# Characters that a long fact has beside others at least.
_LEAST_ROOM = 400
# Most reasons for dropped items that are kept.
_MAX_REASONS = 20
STATUSES = ("TRUE", "FALSE", "SUSPECTED")

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")
_QUOTE_PAIRS = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "「": "」", "『": "』", "`": "`"}
_NOTHING = {"", "none", "null", "n/a", "unknown", "-"}


def clean(value: str) -> str:
    """Return `value` without NUL, control characters and lone surrogates, white space at its ends removed."""
    if value.isprintable():
        return value.strip()
    return _CONTROL.sub("", value).encode("utf-8", "replace").decode("utf-8").strip()


def clean_name(value: str) -> str:
    """Return a name on one line, without a pair of quotes around it."""
    name = " ".join(without_stray_invisible(clean(value)).split())
    while len(name) > 1 and _QUOTE_PAIRS.get(name[0]) == name[-1]:
        name = name[1:-1].strip()
    return name


@lru_cache(maxsize=4096)
def _name_and_key(name: str) -> tuple[str, str]:
    """Return a name in its displayed form, and its key; cached, as an answer repeats most names."""
    display_name = clean_name(name)
    return display_name, key(display_name)


def strength(value: Any) -> Decimal:
    """Return a strength above 0 and at most 10, to two places; 1 if `value` (a number, "7", "7/10") is none.

    A Decimal comes from an import, not from a model, and is returned unchanged.
    """
    if isinstance(value, Decimal):
        return value
    if type(value) is int and 0 < value <= 10:
        return Decimal(value)
    if isinstance(value, str):
        match = _NUMBER.search(value)
        value = float(match.group()) if match else 1
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value >= 1e300 or not math.isfinite(value):
        return Decimal(1)
    amount = Decimal(str(round(min(float(value), 10.0), 2)))
    return amount.normalize() + 0 if amount > 0 else Decimal(1)


def _shortened(text: str, most: int = MAX_DESCRIPTION) -> str:
    if len(text) <= most:
        return text
    cut = text[:most]
    return cut[: max(cut.rfind(". ") + 1, cut.rfind("。") + 1) or most].rstrip()


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity of a chunk. `is_listed` is False for one that only a relationship names.

    `attributes`: values as a model wrote them; after `fit` as JSON has them.
    """

    name: str
    type: str
    description: str
    is_listed: bool = True
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Relationship:
    """A relationship of a chunk, in the direction it was given. `triple_count` counts the triples it was made of (OpenIE).

    `facts`: whole, so that it does not matter in which order they come together.
    """

    source: str
    target: str
    keywords: tuple[str, ...]
    facts: tuple[str, ...]
    strength: Decimal
    triple_count: int = 0

    @property
    def pair(self) -> tuple[str, str]:
        """Its ends, in order."""
        return min(self.source, self.target), max(self.source, self.target)

    @property
    def description(self) -> str:
        """The facts that a description has room for, each on a line."""
        return _joined(self.facts)


@dataclass(slots=True)
class Extraction:
    """Entities by key, relationships by sorted pair of keys, claims in order.

    `statements`: relationships as they were given, before those of a pair became one. `drop_reasons`: items that could not
    be used, and why. `repaired`: whether a part of the model's answers was unreadable. `is_partial`: whether the rest could
    not be had either. `unfit`: items that do not fit the text or the corpus' schema. `fault`: why there is nothing to use.
    """

    entities: dict[str, Entity] = field(default_factory=dict)
    relationships: dict[tuple[str, str], Relationship] = field(default_factory=dict)
    statements: list[Relationship] = field(default_factory=list)
    claims: dict[Claim, None] = field(default_factory=dict)
    drop_reasons: list[str] = field(default_factory=list)
    unfit: list[dict[str, Any]] = field(default_factory=list)
    repaired: bool = False
    is_partial: bool = False
    fault: GraphRAGError | None = None

    def __len__(self) -> int:
        return len(self.entities) + len(self.relationships) + len(self.claims)

    def add_entity(
        self, name: str, type_: str = "", description: str = "", *, attributes: Mapping[str, str] | None = None
    ) -> None:
        """Add an entity; of two with one key, the longer description wins, attributes add up."""
        kind = " ".join(clean(type_).split()).strip("\"'").lower()[:MAX_TYPE]
        values = {
            attribute: value
            for raw_name, raw in list((attributes or {}).items())[:MAX_ATTRIBUTES]
            if (attribute := " ".join(clean(raw_name).split()).lower()[:MAX_TYPE])
            and (value := clean(raw)[:MAX_DESCRIPTION]).lower() not in _NOTHING
        }
        self._enter(name, UNKNOWN if kind in _NOTHING else kind, _shortened(clean(description)), True, values)

    def _enter(
        self, name: str, type_: str, description: str, is_listed: bool, attributes: Mapping[str, Any] | None = None
    ) -> str | None:
        """Add an entity; return its key, or None when the name cannot be used."""
        # A longer text is no name, and is not cached.
        display_name, entity_key = (_name_and_key if len(name) <= MAX_NAME else _name_and_key.__wrapped__)(name)
        if not any(map(str.isalnum, entity_key)):
            self._drop(f"a name without letters: {display_name[:40]!r}")
            return None
        if len(display_name) > MAX_NAME or len(entity_key) > MAX_NAME:
            self._drop(f"a name of {len(display_name)} characters: {display_name[:40]!r}…")
            return None
        self._keep(entity_key, Entity(display_name, type_, description, is_listed, attributes or {}))
        return entity_key

    def _keep(self, entity_key: str, new: Entity) -> None:
        old = self.entities.get(entity_key)
        if old is not None:
            new, loser = (
                (new, old)
                if (new.is_listed, len(new.description)) > (old.is_listed, len(old.description))
                else (old, new)
            )
            if loser.attributes:
                new = replace(new, attributes={**loser.attributes, **new.attributes})
            if new.type == UNKNOWN:
                new = replace(new, type=loser.type)
        self.entities[entity_key] = new

    def add_relationship(
        self, source: str, target: str, keywords: Iterable[str] = (), description: str = "", strength_: Any = None
    ) -> None:
        """Add a relationship; of two with one pair each description is a fact of its own, keywords add up."""
        words_by_key: dict[str, str] = {}
        for keyword in keywords:
            word = clean_name(keyword)[:MAX_KEYWORD].strip()
            if word:
                words_by_key.setdefault(word.casefold(), word)
        words = tuple(list(words_by_key.values())[:MAX_KEYWORDS])
        facts = tuple(_shortened(clean(description)).split("\n"))
        self._relate(Relationship(source, target, words, facts, strength(strength_)))

    def add_triple(self, subject: str, relation: str, object_: str) -> None:
        """Add a triple (OpenIE): triples of one pair are joined, and their number is the strength."""
        relation_name = clean_name(relation)
        description = _shortened(f"{clean_name(subject)} {relation_name} {clean_name(object_)}")
        words = (relation_name[:MAX_KEYWORD].strip(),) if relation_name else ()
        self._relate(Relationship(subject, object_, words, (description,), Decimal(1), triple_count=1))

    def _relate(self, new: Relationship) -> None:
        ends = [self._enter(name, UNKNOWN, "", False) for name in (new.source, new.target)]
        source, target = ends
        if source is None or target is None:
            return
        if source == target:
            self._drop(f"a relationship of {new.source[:40]!r} with itself")
            return
        new = replace(new, source=source, target=target)
        self.statements.append(new)
        self.state(new)

    def state(self, new: Relationship) -> None:
        """Add a relationship of known entities to the one of its pair."""
        pair = new.pair
        old = self.relationships.get(pair)
        self.relationships[pair] = new if old is None else _merge(old, new)

    def state_anew(self, statements: Sequence[Relationship]) -> None:
        """Have these statements alone."""
        if len(statements) < len(self.statements):
            self.statements, self.relationships = list(statements), {}
            for stated in statements:
                self.state(stated)

    def add_claim(self, claim: Claim) -> None:
        """Add a claim; one that has no subject or says nothing is dropped."""
        subject, object_ = clean_name(claim.subject), clean_name(claim.object or "")
        if not key(subject) or len(subject) > MAX_NAME or len(object_) > MAX_NAME or not clean(claim.description):
            self._drop(f"a claim without a subject or description: {subject[:40]!r}")
            return
        status = claim.status.strip().upper()
        self.claims[
            Claim(
                subject,
                None if object_.lower() in _NOTHING else object_,
                " ".join(clean(claim.type).split()).lower()[:MAX_TYPE] or "claim",
                status if status in STATUSES else "SUSPECTED",
                _time(claim.start),
                _time(claim.end),
                _shortened(clean(claim.description)),
                _shortened(clean(claim.source_text or "")) or None,
            )
        ] = None

    def add(self, other: "Extraction") -> None:
        """Add the extraction of another round, or of another part of the chunk."""
        for entity_key, entity in other.entities.items():
            self._keep(entity_key, entity)
        for relationship in other.relationships.values():
            self.state(relationship)
        self.statements += other.statements
        self.claims |= other.claims
        self.drop_reasons += other.drop_reasons
        self.repaired |= other.repaired
        self.is_partial |= other.is_partial

    def remove(self, keys: Collection[str]) -> list[Relationship]:
        """Remove entities and the relationships that have one of them as an end; return these."""
        for entity_key in keys:
            self.entities.pop(entity_key, None)
        removed = [stated for pair, stated in self.relationships.items() if set(pair) & set(keys)]
        for stated in removed:
            del self.relationships[stated.pair]
        self.statements = [stated for stated in self.statements if not set(stated.pair) & set(keys)]
        return removed

    def _drop(self, reason: str) -> None:
        if len(self.drop_reasons) < _MAX_REASONS:
            self.drop_reasons.append(reason)


def _merge(old: Relationship, new: Relationship) -> Relationship:
    """Merge two statements of one pair: each fact stays, on a line of its own; the longest decides the direction."""
    triples = bool(old.triple_count and new.triple_count)
    # In whatever order they come.
    longest, shortest = (old, new) if triples or _rank(old) >= _rank(new) else (new, old)
    words = {word.casefold(): word for word in (*reversed(shortest.keywords), *reversed(longest.keywords))}
    keywords = tuple(list(words.values())[::-1][:MAX_KEYWORDS])
    facts = (*old.facts, *new.facts)
    if not triples:
        strength = max(old.strength, new.strength)
        return replace(longest, keywords=keywords, facts=tuple(_distinct(facts)), strength=strength, triple_count=0)
    count = old.triple_count + new.triple_count
    return replace(
        old, keywords=keywords, facts=tuple(dict.fromkeys(facts)), strength=Decimal(count), triple_count=count
    )


def _rank(stated: Relationship) -> tuple[Any, ...]:
    return max((len(fact), fact) for fact in stated.facts), stated.source < stated.target


def _distinct(facts: Iterable[str]) -> list[str]:
    """Return facts, the longest first, without those that another one has word by word."""
    kept: dict[str, str] = {}
    for fact in sorted(facts, key=lambda fact: (-len(fact), fact)):
        words = f" {' '.join(fact.casefold().split()).rstrip('.。')} "
        if not any(words.rstrip() in longer for longer in kept):
            kept[words] = fact
        if len(kept) == _MAX_FACTS:
            break
    return list(kept.values())


def _joined(facts: Sequence[str]) -> str:
    """Return the facts that a description has room for, each on a line; long ones end early, so that others are in."""
    room = most = MAX_DESCRIPTION - len(facts) + 1
    for place, length in enumerate(sorted(map(len, facts))):
        most = max(room // (len(facts) - place), _LEAST_ROOM)
        if length > most:
            break
        room -= length
    lines: list[str] = []
    room = MAX_DESCRIPTION + 1
    for fact in (_shortened(fact, most) for fact in facts):
        if len(fact) < room:
            room -= len(fact) + 1
            lines.append(fact)
    return "\n".join(lines)


def _time(value: str | None) -> str | None:
    text = clean_name(value or "")[:40]
    return None if text.lower() in _NOTHING else text


# Items of a chunk that are kept apart; of more the others are counted by the last one alone.
MAX_UNFIT = 200
_SHOWN = 300


def fit(extraction: Extraction, schema: ExtractionSchema) -> None:
    """Keep the items of `extraction` that fit the schema; add the others to `unfit`: {kind, item, reason}, in the order of
    keys.

    Everything fits an open schema, but loses its attributes. A relationship fits by the types of its ends and by one of its
    keywords, and gets its direction from the schema; that keyword then comes first.
    """
    if not schema.is_closed:
        for key, entity in extraction.entities.items():
            extraction.entities[key] = replace(entity, attributes={}) if entity.attributes else entity
        return
    unfit: list[dict[str, Any]] = []
    for key, entity in sorted(extraction.entities.items()):
        attributes = schema.entities.get(entity.type)
        if attributes is None:
            del extraction.entities[key]
            if entity.is_listed:
                item = {"name": entity.name, "type": entity.type}
                unfit.append({"kind": "entity", "item": item, "reason": "the schema has no such type"})
            continue
        values: dict[str, Any] = {}
        for name, raw in sorted(entity.attributes.items()):
            value = as_value(raw, attributes[name]) if name in attributes else None
            if value is not None:
                values[name] = value
                continue
            reason = f"it is no {attributes[name]}" if name in attributes else f"a {entity.type} has no such attribute"
            item = {"name": entity.name, "attribute": name[:MAX_SCHEMA_NAME], "value": raw[:_SHOWN]}
            unfit.append({"kind": "attribute", "item": item, "reason": reason})
        extraction.entities[key] = replace(entity, attributes=values)
    # Each as it was stated: one relation of a pair may fit and another not.
    extraction.relationships.clear()
    for relationship in sorted(dict.fromkeys(extraction.statements), key=lambda stated: stated.pair):
        fitting, reason = _fitting(extraction, relationship, schema)
        if fitting is not None:
            extraction.state(fitting)
            continue
        pair_item: dict[str, Any] = {
            "source": relationship.source,
            "target": relationship.target,
            "keywords": list(relationship.keywords),
        }
        unfit.append({"kind": "relationship", "item": pair_item, "reason": reason})
    extraction.unfit += unfit


def keep_most(extraction: Extraction) -> None:
    """Keep the first unfit items, and the number of the others."""
    if (more := len(extraction.unfit) - MAX_UNFIT) > 0:
        rest = {"kind": "rest", "item": {"count": more}, "reason": "more than are kept"}
        extraction.unfit[MAX_UNFIT:] = [rest]


def _fitting(
    extraction: Extraction, relationship: Relationship, schema: ExtractionSchema
) -> tuple[Relationship | None, str]:
    """Return (a relationship in the form of the schema, ""), or (None, why it does not fit)."""
    ends = [extraction.entities.get(end) for end in (relationship.source, relationship.target)]
    source, target = ends
    if source is None or target is None:
        return None, "an end is no entity of the schema"
    relation = schema.relation(source.type, relationship.keywords, target.type)
    if relation is None:
        return None, f"the schema has no such relation of {source.type} and {target.type}"
    name, forward = relation
    if schema.relations is None:
        return relationship, ""
    others = [word for word in relationship.keywords if folded(word) != folded(name)]
    swapped = relationship if forward else replace(relationship, source=relationship.target, target=relationship.source)
    return replace(swapped, keywords=(name, *others)), ""
