"""Whatever reads a text that somebody else wrote takes four times as long for four times as much, not sixteen."""

import gc
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pg_graphrag
import pytest
from pg_graphrag.beside.judging.client_model import Unusable, read_object
from pg_graphrag.beside.readers import decode, markdown
from pg_graphrag.beside.readers.layout import text as pdf_text
from pg_graphrag.beside.readers.layout.page import Line, Segment
from pg_graphrag.beside.readers.markup import asciidoc, latex, mediawiki, org, rst
from pg_graphrag.beside.readers.messages import icalendar, subtitles
from pg_graphrag.beside.readers.plain import row_documents as table_rows
from pg_graphrag.beside.readers.source import Source
from pg_graphrag.beside.readers.web import furniture
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.curation import name_variants
from pg_graphrag.index.extraction import extraction_replies, records
from pg_graphrag.index.graph import cypher_text
from pg_graphrag.llm.asking import replies
from pg_graphrag.llm.embedding import name_tagger
from pg_graphrag.llm.endpoints.faults import ItemFault
from pg_graphrag.search.contexts import citation_places, sentences_in_order
from pg_graphrag.search.contexts.citations import Citations
from pg_graphrag.text import chunks, concept, dates, languages, outline, prose, sentences
from pg_graphrag.text.naming import full_names
from pg_graphrag.text.naming.unit_traits import units
from pg_graphrag.text.words import concepts, names, search_terms

from tests.security import hostile

# Characters; and what is too quick to be compared, in seconds.
LENGTH = 4000
FLOOR = 0.02
# Four times the length may take so many times as long: the processor's caches and other processes have their part.
FACTOR = 8


def _cite(text: str) -> None:
    whole = Citations([1, 2, 3])
    whole.feed(text)
    whole.finish()
    pieces = Citations([1, 2, 3])
    for at in range(0, len(text), 7):
        pieces.feed(text[at : at + 7])
    pieces.finish()


def _read_cypher(text: str) -> None:
    for query in (text, f"RETURN {text}", f"RETURN {text} AS x"):
        try:
            cypher_text.parse_cypher(query)
        except GraphRAGError:
            continue


def _refused(function: Callable[..., Any], *more: Any) -> Callable[[str], None]:
    def read(text: str) -> None:
        try:
            function(text, *more)
        except (ItemFault, Unusable):
            return

    return read


def _read_lines(text: str) -> None:
    lines = [Line([Segment(0, -index, 100, 1 - index, 10, line)]) for index, line in enumerate(text.split("\n"))]
    pdf_text._flowed(lines, Counter())
    for line in lines:
        pdf_text._NUMBER.fullmatch(line.text)
        pdf_text._shape(line, 10)


def _file(read: Callable[[Source], Any]) -> Callable[[str], Any]:
    return lambda text: list(read(Source(Path("x"), "x", "x", data=text.encode("utf-8", "replace"))))


READERS: dict[str, Callable[[str], Any]] = {
    "the key of a name": concept.key,
    "concepts, English": lambda text: concepts.concepts(text, "en"),
    "concepts, another language": lambda text: concepts.concepts(text, "fr"),
    "concepts, German": lambda text: concepts.concepts(text, "de"),
    "prose": prose.prose,
    "a line of an answer by extracts": sentences_in_order.readable,
    "heads of a table": lambda text: sentences_in_order._with_heads(f"{'|a' * len(text)}|\n|-|\n{text}"),
    "beginnings of lines": lambda text: name_tagger._beginnings(text, list(units(text))),
    "references": lambda text: full_names.references(text, [], sentences.sentences(text, "en")),
    "the name that a title is": names.title_name,
    "search terms": lambda text: search_terms.lexical(text, "en"),
    "other spellings": search_terms.spelled_otherwise,
    "languages": search_terms.query_languages,
    "language": languages.detect,
    "dates": dates.dates,
    "periods": dates.periods,
    "sentences": lambda text: sentences.sentences(text, "en"),
    "windows": lambda text: chunks.windows(text, 0, len(text), "en"),
    "keys of a title": names.title_keys.__wrapped__,
    "quoted titles": names.quoted_titles,
    "citations": _cite,
    "reasoning": replies.without_reasoning,
    "keywords of a model": _refused(replies.keywords, False),
    "an object of a model": _refused(read_object),
    "rows of a model": extraction_replies.read_rows,
    "a strength": records.strength,
    "a name of a model": records.clean_name,
    "spellings of a name": name_variants.spellings_of,
    "words of a name": name_variants.words,
    "Cypher": _read_cypher,
    "agtype": cypher_text.json_of,
    "the text of a Markdown file": lambda text: markdown._cleaned(*markdown._front_matter(text)),
    "a file of reStructuredText": _file(rst.read_rst),
    "a file of AsciiDoc": _file(asciidoc.read_asciidoc),
    "a file of Org": _file(org.read_org),
    "a file of LaTeX": _file(latex.read_latex),
    "a page of a wiki": _file(mediawiki.read_mediawiki),
    "subtitles": _file(subtitles.read_subtitles),
    "a calendar": lambda text: _file(icalendar.read_icalendar)(f"BEGIN:VCALENDAR\nBEGIN:VEVENT\n{text}"),
    "rows in single quotes": table_rows._SINGLE_QUOTED.findall,
    "the encoding of bytes": lambda text: decode.likely_encoding(
        text.encode("utf-16-be", "replace").replace(b"\0", b"")
    ),
    "the outline of a text": lambda text: outline.Outline(text).section(0, len(text)),
    "the paragraph that is cited": lambda text: citation_places._paragraph(text, [text[:200]]),
    "the licence around a book": furniture.without_gutenberg,
    "lines of a PDF": _read_lines,
}


def _seconds(read: Callable[[str], Any], text: str) -> float:
    started = time.process_time()
    read(text)
    return time.process_time() - started


@pytest.mark.sample(14)
@pytest.mark.parametrize("reader", READERS)
def test_four_times_the_text_takes_four_times_as_long(reader: str) -> None:
    read = READERS[reader]
    read("warm up 東京")
    gc.disable()
    try:
        slow = {}
        for shape in (*hostile.REPEATED, *hostile.ENDED):
            short, long = hostile.text(shape, LENGTH), hostile.text(shape, 4 * LENGTH)
            if (seconds := _seconds(read, long)) < FLOOR:
                continue
            # The better of two: nothing else makes it quicker.
            once = min(_seconds(read, short) for _ in range(2))
            limit = max(FLOOR, FACTOR * once)
            if seconds > limit and (seconds := _seconds(read, long)) > limit:
                slow[shape] = (once, seconds)
    finally:
        gc.enable()
    assert slow == {}


@pytest.mark.parametrize("opening", ["\\[ a ", "\\( a ", "\\begin{verbatim} "])
def test_formulas_and_code_that_never_close_are_looked_for_once(opening: str) -> None:
    short, long = (opening * (length // len(opening)) for length in (40_000, 160_000))
    once = min(_seconds(READERS["a file of LaTeX"], short) for _ in range(3))
    assert min(_seconds(READERS["a file of LaTeX"], long) for _ in range(2)) <= max(FLOOR, FACTOR * once)


# A group, or a part put into a pattern by its name, that gives nothing back: )*+, {_GAP}++, ){1,3}+, ){{1,3}}+ and (?>. Escaped
# brackets are characters, and \p{L}++ is Rust's.
_ATOMIC_GROUP = re.compile(r"(?:(?<!\\)\)|(?<!\\p)\{[A-Za-z_][\w.]*\})(?:[*+?]|\{+[\d,]+\}+)\+|\(\?>")


@pytest.mark.parametrize("form", [")*+", ")++", ")?+", "){1,3}+", "){{,3}}+", "{_GAP}*+", "(?>"])
def test_atomic_groups_are_seen(form: str) -> None:
    assert _ATOMIC_GROUP.search(form)


def test_only_characters_and_classes_are_possessive() -> None:
    """Before 3.11.5, Python keeps what the last, failing turn of a possessive group has read: "ab- c" for \\w+(?:-\\w+)*+."""
    root = Path(pg_graphrag.__file__).parent
    found = [
        f"{path.relative_to(root)}:{number}"
        for path in sorted(root.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _ATOMIC_GROUP.search(line)
    ]
    assert found == []
