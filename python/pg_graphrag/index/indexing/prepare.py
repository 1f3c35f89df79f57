"""The slow part of indexing: cuts chunks and finds concepts. Pure computation; the caller polls for cancel between
steps.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from pg_graphrag.index.graph.drafts import (
    MAX_DESCRIPTION,
    ChunkDraft,
    DocumentDraft,
    EntityDraft,
    Evidence,
    RelationshipDraft,
)
from pg_graphrag.index.indexing.entity_keys import (
    candidates_of,
    entity_keys,
    full_name,
    is_clause,
    is_headline,
    is_of_names,
    is_phrase,
    is_said,
    is_stem,
    usages_of,
)
from pg_graphrag.index.indexing.picture_chunks import DuePicture, picture_pieces
from pg_graphrag.llm.embedding.name_tagger import TermScores
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text.chunks import Chunk, chunk, windows
from pg_graphrag.text.concept import NEVER, Concept, digest, entity_types, key
from pg_graphrag.text.languages import detect
from pg_graphrag.text.letters import has_invisible_or_apart, with_places, without_stray_invisible
from pg_graphrag.text.naming.full_names import full_names, references, speakers, with_speakers
from pg_graphrag.text.naming.gate import counted_windows
from pg_graphrag.text.outline import PATH_JOINT, Outline
from pg_graphrag.text.prose import prose
from pg_graphrag.text.sentences import sentences
from pg_graphrag.text.tokenizers import Tokenizer
from pg_graphrag.text.words.concepts import concepts, pairs, with_names
from pg_graphrag.text.words.names import title_name
from pg_graphrag.text.words.search_terms import lexical

# A description is a sentence of this many characters; others are used only if there is none.
GOOD_SENTENCE = (40, 300)
# A title longer than this is a sentence, not a name.
MAX_TITLE_NAME = 100
# Characters of a title that are indexed: it goes with every chunk and window of its document.
MAX_TITLE = 1000
# More occurrences in a chunk do not count in a walk (search/graph_view/graph_tables.py).
MAX_TF = 3


class WindowTerms(NamedTuple):
    """How much each token of a window belongs to a term.

    `start`: where the window begins in its chunk's own text.
    `moved`: the offset from places of `terms` to places of the own text.
    """

    start: int
    moved: int
    terms: TermScores


@dataclass(frozen=True, slots=True)
class DocumentNames:
    """What a local model reads in one document.

    `by_chunk`: {ordinal: names as they stand in the chunk's own text}
    `of_title`: names of the title
    `terms`: {ordinal: scores of the tokens of its windows, ascending}
    `is_read`: whether there is a tagger.
    """

    by_chunk: Mapping[int, Sequence[Concept]] = field(default_factory=dict)
    of_title: Sequence[Concept] = ()
    terms: Mapping[int, Sequence[WindowTerms]] = field(default_factory=dict)
    is_read: bool = False

    def scored(self, ordinal: int, concepts: Sequence[Concept]) -> list[Concept]:
        """Return the concepts of a chunk's own text with how much of a term they are in the last window that has them."""
        of_windows = self.terms.get(ordinal)
        if not of_windows:
            return list(concepts)
        starts = [window.start for window in of_windows]
        scored = []
        for concept in concepts:
            number = bisect_right(starts, concept.start) - 1
            window = of_windows[number]
            score = window.terms.of(concept.start - window.moved, concept.end - window.moved) if number >= 0 else None
            scored.append(concept if score is None else replace(concept, term_score=score))
        return scored


@dataclass(frozen=True, slots=True)
class _Names:
    """The meaning of a document's names.

    `keys`: of the entities.
    `full`: {key: the full name that it means}, or None if names stay as written.
    `spoken`: keys of the labels of speakers.
    """

    keys: Set[str]
    full: Mapping[str, Concept] | None
    spoken: Set[str]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was found in chunks of one document.

    `by_chunk`: concepts by their places in the prose of each chunk.
    `proses`: without invisible characters, with whole letters.
    `places` (list of lists of int, or None): where each character of a prose is in the chunk, unless the places are equal.
    `titles`: {language: concepts of the title}
    `types`: {key: type}, as `entity_types` gives them
    """

    by_chunk: list[list[Concept]]
    proses: list[str]
    places: list[list[int] | None]
    languages: list[str]
    titles: Mapping[str, list[Concept]]
    whole_title: Concept | None
    types: Mapping[str, str]
    names: _Names


def draft(
    document_id: int,
    content_hash: str,
    title: str | None,
    content: str,
    options: Options,
    tokenizer: Tokenizer,
    spans: Iterable[Chunk] | None = None,
    *,
    pictures: Sequence[DuePicture] = (),
    is_long: bool = False,
) -> Iterator[DocumentDraft | None]:
    """Yield None after each chunk (a place to poll for cancel), then the draft without mentions and vectors.

    White space alone makes no chunk: such a document is indexed and empty. `spans` gives the chunks of a document that brings its
    mentions. The graph of one that `is_long` comes in parts.
    """
    chunks: list[ChunkDraft] = []

    def add(text: str, base: int, piece: Chunk, section: str | None, page: int | None, picture: int | None) -> None:
        own_text = text[piece.start - base : piece.end - base]
        language = detect(own_text) if options.language == "auto" else options.language
        head = PATH_JOINT.join(part for part in (title, section) if part)
        spans_of = windows(text, piece.own_start - base, piece.end - base, language)
        chunks.append(
            ChunkDraft(
                ordinal=piece.ordinal,
                start=piece.start,
                own_start=piece.own_start,
                end=piece.end,
                language=language,
                content=own_text,
                lexical=lexical(f"{head}\n{own_text}" if head else own_text, language),
                token_count=piece.token_count,
                windows=[(base + start, base + end) for start, end in spans_of],
                section=section,
                page=page,
                picture_id=picture,
            )
        )

    outline = Outline(content, title)
    if content.strip() and not content.isspace():
        cut = chunk(content, tokenizer, options.chunk_token_size, options.chunk_overlap) if spans is None else spans
        for piece in cut:
            add(content, 0, piece, outline.section(piece.own_start, piece.end), outline.page(piece.start), None)
            yield None
    for picture, base, piece in picture_pieces(pictures, len(content), len(chunks), options, tokenizer):
        place = outline.page_start(picture.page) if picture.place is None else min(picture.place, len(content))
        page = outline.page(place) if picture.page is None else picture.page
        add(picture.text, base, piece, outline.section(place, place + 1), page, picture.id)
        yield None
    if is_long and chunks:
        yield DocumentDraft(document_id, content_hash, title, chunks, [], lacks_graph=True, is_long=True)
    else:
        yield DocumentDraft(document_id, content_hash, title, chunks, window_texts(title, chunks))


def own_proses(chunk_drafts: Sequence[ChunkDraft]) -> Iterator[str]:
    """Yield the own text of each chunk, with blanks in place of everything that is no prose.

    Chunks of the content, which follow each other, are read together; those of pictures each by itself.
    """
    of_content = [draft for draft in chunk_drafts if draft.picture_id is None]
    texts = [
        draft.content if draft is of_content[0] else draft.text(draft.own_start, draft.end) for draft in of_content
    ]
    clean, start = prose("".join(texts)), of_content[0].start if of_content else 0
    for draft in chunk_drafts:
        if draft.picture_id is None:
            yield clean[draft.own_start - start : draft.end - start]
        else:
            yield prose(draft.text(draft.own_start, draft.end))


def window_head(title: str | None, chunk: ChunkDraft) -> str:
    """Return what stands before each window of a chunk where it is embedded: title and section, and a line end."""
    head = PATH_JOINT.join(part for part in (title, chunk.section) if part)
    return f"{head}\n" if head else ""


def window_texts(title: str | None, chunks: Sequence[ChunkDraft]) -> list[str]:
    """Return the text to embed for each window: title and section, a line end, and the window's text."""
    return [window_head(title, draft) + text for draft in chunks for text in draft.window_texts()]


def add_concepts(
    chunk_drafts: Sequence[ChunkDraft],
    title: str | None,
    own_proses: Iterable[str],
    names: DocumentNames,
    *,
    with_full_names: bool,
    counted: Set[int] = frozenset(),
) -> Iterator[None]:
    """Add the mentions that need no model to chunks of one document; yield after each chunk, twice (places to poll for
    cancel).

    Entities are the concepts of a chunk's own prose and its title; relationships are pairs within a sentence. A weak
    concept is an entity if these chunks mention it often enough; its digest is recorded in any case, for walks.
    `own_proses` has the own text of each chunk with blanks in place of everything that is no prose; `names` are those that
    the tagger reads there. With `with_full_names`, short names and pronouns count as the name that they mean in these
    chunks. For chunks of the ordinals `counted`, which a model has read, only the digests of all concepts are recorded.

    Source: LazyGraphRAG (Microsoft Research 2024).
    """
    reading = yield from _read(chunk_drafts, title, own_proses, names, with_full_names=with_full_names)
    for place, (chunk_draft, named) in enumerate(zip(chunk_drafts, reading.by_chunk, strict=True)):
        mentioned = _mentioned(chunk_draft, named, reading, place)
        if chunk_draft.ordinal in counted:
            entities = (key(concept.name) for concept in chain(mentioned.in_text, mentioned.in_title))
            chunk_draft.concepts = digests(
                mentioned.weak | Counter(entity_key for entity_key in entities if entity_key)
            )
        else:
            _add_mentions(chunk_draft, mentioned, reading.types)
            chunk_draft.weak = mentioned.weak
            chunk_draft.concepts = digests(chunk_draft.weak) or None
        yield None


def _read(
    chunk_drafts: Sequence[ChunkDraft],
    title: str | None,
    own_proses: Iterable[str],
    tagged: DocumentNames,
    *,
    with_full_names: bool,
) -> Generator[None, None, _Reading]:
    """Find the concepts of chunks of one document; yield after each chunk, and return what was found."""
    concepts_by_chunk: list[list[Concept]] = []
    proses: list[str] = []
    places: list[list[int] | None] = []
    name = title_name(without_stray_invisible(title)) if title else ""
    for chunk_draft, own_prose in zip(chunk_drafts, own_proses, strict=True):
        in_prose = [concept for concept in tagged.by_chunk.get(chunk_draft.ordinal, ()) if _is_in(own_prose, concept)]
        named = with_names(concepts(own_prose, chunk_draft.language), in_prose, [key(name)])
        named, own_places = tagged.scored(chunk_draft.ordinal, named), None
        if has_invisible_or_apart(own_prose):
            own_prose, own_places = with_places(own_prose)
            named = [_moved(concept, partial(bisect_left, own_places)) for concept in named]
        concepts_by_chunk.append(named)
        proses.append(own_prose)
        places.append(own_places)
        yield None
    languages = sorted({draft.language for draft in chunk_drafts})
    in_title = _names_within(name, tagged.of_title)
    titles = {language: with_names(concepts(name, language), in_title) if name else [] for language in languages}
    whole_title: Concept | None = None
    if 0 < len(name) <= MAX_TITLE_NAME:
        # "Saving Private Ryan" looks like a clause; its text calls it so.
        of_stem, of_clause = is_stem(name), is_clause(name, languages)
        is_none = of_stem or of_clause or not is_of_names(name, titles, proses)
        says_so = is_said(name, proses, as_written=of_clause) and not is_headline(name)
        of_title = NEVER if is_none and not says_so else 1
        if of_title == NEVER:
            titles = {
                language: [] if of_stem else _named_within(name, inners, is_clause=of_clause)
                for language, inners in titles.items()
            }
        whole_title = Concept(name, 0, len(name), "NAME", of_title)
    full: dict[str, Concept] | None = None
    speaking: dict[str, str] = {}
    everything = [concept for concept in chain(*concepts_by_chunk, *titles.values()) if not concept.is_piece]
    everything += [whole_title] if whole_title else []
    if with_full_names:
        whole_text = "\n".join(proses)
        speaking = speakers(whole_text)
        full = with_speakers(full_names(everything, whole_text, languages, is_read=tagged.is_read), speaking)
    window_count = counted_windows(proses, sum(len(chunk_draft.windows) for chunk_draft in chunk_drafts))
    usages = usages_of(
        [*concepts_by_chunk, *titles.values()],
        [*proses, *[name] * len(titles)],
        [*(chunk_draft.language for chunk_draft in chunk_drafts), *titles],
        full,
        window_count,
        is_read=tagged.is_read,
    )
    candidates = candidates_of(usages, concepts_by_chunk, proses)
    keys = entity_keys(candidates, window_count)
    if whole_title is not None and whole_title.mentions_needed == 1:
        # What a document is about needs no evidence.
        keys_of_title = {key(full_name(concept, full).name) for concept in chain(*titles.values())}
        keys |= {key(full_name(whole_title, full).name), *(keys_of_title & candidates.keys())}
    everything = [full_name(concept, full) for concept in everything]
    types = entity_types(everything, speaking.values(), is_read=tagged.is_read)
    names = _Names(keys=keys, full=full, spoken=with_speakers({}, speaking).keys())
    return _Reading(concepts_by_chunk, proses, places, languages, titles, whole_title, types, names)


def _named_within(title: str, inners: Sequence[Concept], *, is_clause: bool) -> list[Concept]:
    """Return the concepts of a title that is no name itself: of a clause, "Disable printing", none that begins with its verb."""
    return [
        inner
        for inner in inners
        if key(inner.name) != key(title) and not (is_clause and inner.start == 0 and is_phrase(inner))
    ]


def _is_in(prose: str, concept: Concept) -> bool:
    """Whether the prose of a chunk has a name that its text has: no code, path or field."""
    return key(prose[concept.start : concept.end]) == key(concept.name)


def _names_within(title: str, names: Iterable[Concept]) -> list[Concept]:
    """Return names of a title, in order, as they stand in the name that it is."""
    placed: list[Concept] = []
    position = 0
    for concept in names:
        if (start := title.find(concept.name, position)) >= 0:
            position = start + len(concept.name)
            placed.append(replace(concept, start=start, end=position))
    return placed


def digests(counts: Mapping[str, int]) -> bytes:
    """Return the digests of keys, each as often as it counts in a walk, ascending."""
    return b"".join(sorted(digest(name) for name, count in counts.items() for _ in range(min(count, MAX_TF))))


@dataclass(frozen=True, slots=True)
class _Mentioned:
    """What a chunk mentions.

    `sentences` (list of (int, int)): of its own text, by its characters.
    `in_text`, `in_title`: those that are entities, by their full names.
    `weak`: {key of a concept that is no entity by one mention: its mentions here}
    """

    sentences: list[tuple[int, int]]
    in_text: list[Concept]
    in_title: list[Concept]
    weak: dict[str, int]


def _mentioned(chunk_draft: ChunkDraft, named: Sequence[Concept], reading: _Reading, number: int) -> _Mentioned:
    """Return what a chunk mentions; of one without text of its own nothing."""
    names, places = reading.names, reading.places[number]
    spans = list(sentences(chunk_draft.text(chunk_draft.own_start, chunk_draft.end), chunk_draft.language))
    if not spans:
        return _Mentioned([], [], [], {})
    weak: Counter[str] = Counter()
    in_prose = spans if places is None else [(bisect_left(places, a), bisect_left(places, b)) for a, b in spans]
    whole = [concept for concept in named if not concept.is_piece]
    referring = references(reading.proses[number], whole, in_prose) if names.full is not None else []
    in_text = list(_entities(chain(named, referring), names, weak))
    if places is not None:
        in_text = [_moved(concept, places.__getitem__) for concept in in_text]
    in_title = list(_entities(reading.titles[chunk_draft.language], names, weak))
    if reading.whole_title is not None:
        whole_title = full_name(reading.whole_title, names.full)
        title_key = key(whole_title.name)
        if title_key and title_key not in names.keys:
            weak[title_key] = max(weak[title_key], 1)
        elif all(key(concept.name) != title_key for concept in chain(in_text, in_title)):
            in_title.append(whole_title)
    return _Mentioned(spans, in_text, in_title, dict(weak))


def _add_mentions(chunk_draft: ChunkDraft, mentioned: _Mentioned, types: Mapping[str, str]) -> None:
    spans = [(chunk_draft.own_start + start, chunk_draft.own_start + end) for start, end in mentioned.sentences]
    starts = [start for start, _ in spans]
    window_starts = [start for start, _ in chunk_draft.windows]
    by_sentence: dict[int, list[Concept]] = {}
    for concept in mentioned.in_text:
        by_sentence.setdefault(bisect_right(starts, chunk_draft.own_start + concept.start) - 1, []).append(concept)
    for number, sentence_concepts in by_sentence.items():
        evidence = evidence_of(chunk_draft, *spans[number])
        sentence_concepts.sort(key=lambda concept: (concept.start, concept.end))
        keys = []
        for concept in sentence_concepts:
            window = bisect_right(window_starts, chunk_draft.own_start + concept.start) - 1
            keys.append(_mention(chunk_draft, concept.name, _type(concept, types), evidence, window))
        window = bisect_right(window_starts, spans[number][0]) - 1
        for first, second in pairs(sentence_concepts):
            _relate(chunk_draft, keys[first], keys[second], evidence, window)
    if mentioned.in_title:
        evidence = evidence_of(chunk_draft, *spans[0])
        for concept in mentioned.in_title:
            _mention(chunk_draft, concept.name, _type(concept, types), evidence, 0)


def _moved(concept: Concept, place_of: Callable[[int], int]) -> Concept:
    return replace(concept, start=place_of(concept.start), end=place_of(concept.end))


def _entities(named: Iterable[Concept], names: _Names, weak: Counter[str]) -> Iterator[Concept]:
    """Yield the concepts that are entities, by their full names; count in `weak` those that one mention makes none.

    What holds more than one name has, or joins several, says nothing beside these: it would count them twice.
    """
    reach = 0
    for short in named:
        if short.tag:
            reach = max(reach, short.end)
        elif short.is_piece and short.end > reach:
            continue
        concept = full_name(short, names.full)
        entity_key, short_key = key(concept.name), key(short.name)
        if short_key != entity_key and short_key in names.spoken:
            # A question about LiHua walks from the chats that use this short name.
            weak[short_key] += 1
        if entity_key and (concept.is_weak or is_phrase(concept) or entity_key not in names.keys):
            weak[entity_key] += 1
        if entity_key in names.keys and not concept.is_piece:
            yield concept


def _type(concept: Concept, types: Mapping[str, str]) -> str:
    return types.get(key(concept.name), concept.type)


def _mention(chunk_draft: ChunkDraft, name: str, type_: str, evidence: Evidence, window: int) -> str:
    entity_key = key(name)
    if not entity_key:
        return ""
    entity = chunk_draft.entities.get(entity_key)
    if entity is None:
        entity = chunk_draft.entities[entity_key] = EntityDraft(type_, evidence)
    spelling = " ".join(without_stray_invisible(name).split())
    entity.spellings[spelling] = entity.spellings.get(spelling, 0) + 1
    entity.tf += 1
    if entity.type == "CONCEPT":
        entity.type = type_
    entity.windows |= 1 << window
    if entity.evidence is None or evidence.rank < entity.evidence.rank:
        entity.evidence = evidence
    return entity_key


def _relate(chunk_draft: ChunkDraft, source: str, target: str, evidence: Evidence, window: int) -> None:
    if not source or not target or source == target:
        return
    pair = (source, target) if source < target else (target, source)
    relationship = chunk_draft.relationships.get(pair)
    if relationship is None:
        relationship = chunk_draft.relationships[pair] = RelationshipDraft(evidence)
    relationship.weight += 1
    relationship.forward += 1 if source < target else -1
    relationship.windows |= 1 << window
    if relationship.evidence is None or evidence.rank < relationship.evidence.rank:
        relationship.evidence = evidence


def evidence_of(chunk_draft: ChunkDraft, start: int, end: int) -> Evidence:
    """Return a part of a chunk as a sentence that could describe what it names."""
    text = " ".join(chunk_draft.text(start, end).split())
    return Evidence(evidence_rank(text), start, end, text[:MAX_DESCRIPTION])


def evidence_rank(text: str) -> int:
    """Return the rank of a sentence, its blanks single: by its length, then by chance, the same each time."""
    low, high = GOOD_SENTENCE
    penalty = max(low - len(text), len(text) - high, 0)
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=6).digest()
    return min(penalty, 32767) << 48 | int.from_bytes(digest, "big")
