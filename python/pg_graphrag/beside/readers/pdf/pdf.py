"""PDF, by PDFium: the text that the file holds, or recognised text, as Markdown; a form feed ends each page."""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ctypes import c_double, c_int, create_string_buffer
from datetime import UTC, datetime, timedelta, timezone
from math import hypot, pi
from statistics import median
from typing import Any
from unicodedata import normalize

import pypdfium2 as pdfium

from pg_graphrag.beside.readers.attached import MAX_ATTACHMENTS, own_names, read_attachments
from pg_graphrag.beside.readers.layout.blocks import LEFTWARD, page_of
from pg_graphrag.beside.readers.layout.grids import Grid, grids_of
from pg_graphrag.beside.readers.layout.page import DOTS, Block, Line, Page, Segment
from pg_graphrag.beside.readers.layout.text import Entry, text_of, title_of
from pg_graphrag.beside.readers.markdown import heading_of
from pg_graphrag.beside.readers.ocr.recognise import MAX_PAGES as MAX_RECOGNISED
from pg_graphrag.beside.readers.ocr.recognise import Recognised, metadata_of, recognised_pages, unsure_text
from pg_graphrag.beside.readers.pdf.pdf_garbled import garbled_pages
from pg_graphrag.beside.readers.pdf.pdf_lines import drawn_lines
from pg_graphrag.beside.readers.pdf.pdf_notes import notes_of
from pg_graphrag.beside.readers.pdf.pdf_pictures import add_pictures, drawn_pages, stamped_scans
from pg_graphrag.beside.readers.source import Facts, Item, Source, numbers_text

MAX_PAGES = 20_000
# A page that has more is no text: patterns, maps.
MAX_CHARACTERS = 200_000
_MAX_OUTLINE = 10_000
# For XFA forms it would tell the user how to build PDFium.
logging.getLogger("pypdfium2").setLevel(logging.ERROR)
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(Z|[+-]\d\d'?\d\d)?")
# Titles that programs make of file names.
_NO_TITLE = re.compile(r"(?i)untitled.*|microsoft \w+ - .*|.*\.(docx?|pptx?|xlsx?|tex|dvi|indd|qxd|ps|pdf|html?|odt)")
# What ReportLab writes where nobody said anything.
_UNSAID = re.compile(r"\(?(?:anonymous|unspecified)\)?")
_FIXED_PITCH = 1
_CODE_FONT = re.compile(r"(?i)mono(?!type)|courier|consolas|menlo|typewriter|cm(?:sl|it)?tt|lmtt|sltt|[a-z]code")
_MATH_FONT = re.compile(r"(?i)cm(?:sy|mi|ex|bsy|mib)|ms[ab]m|math|symbol|wasy")
# Fonts of formulas alone, and signs that some letters of text are not.
_FORMULA_FONT = re.compile(
    r"(?i)cm(?:mi|sy|ex|mib|bsy)\d|(?:cambria|stix\w{0,3}|xits|modern|asana|fira|tex ?gyre\w{0,9})[- ]?math|[rtp]xmi"
)
_FORMULA_SIGN = re.compile("[=<>≈≠≤≥±×∑∏∫√∈∞∂∇]")
_BOLD_FONT = re.compile(r"(?i)bold|black|heavy|demi|cmbx|sfbx|cmssbx")
_CJK = "\u3001-\u30ff\u3400-\u9fff\uff00-\uffef"
_CJK_SPACE, _CJK_PAIR = re.compile(f"(?<=[{_CJK}]) (?=[{_CJK}])"), re.compile(f"[{_CJK}](?=[{_CJK}])")
_MIN_SPREAD = 3
_FIRST_LEFTWARD = 0x0590
_GENERATED_SPACES = " \t\xa0"
_FIRST_SIGN, _TAB = 32, 9
# Where fonts of TeX have ligatures and dashes, in either of their two orders; some PDFs have no other name for these.
_TEX_SIGNS = dict(zip((*range(11, 16), *range(27, 32)), ("ff", "fi", "fl", "ffi", "ffl") * 2, strict=True)) | {
    21: "–",
    22: "—",
}
# Accents that stand for themselves, and those that stand above a letter; letters that have no dot where one has.
_ACCENTS = dict(
    zip("`´ˆ˜¯˘˙¨˚˝ˇ¸˛", "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327\u0328", strict=True)
)
_DOTLESS = {"ı": "i", "ȷ": "j"}
# Characters of a page that say how it is turned; half a turn.
_LOOKED_AT, _UPSIDE_DOWN = 200, 2
# In ems: a gap in which a drawn line may stand, after a blank and otherwise; and one that separates cells if the lines
# above and below have it.
_LEAST_GAP, _GAP_OF_CELLS, _NARROW_GAP = 0.1, 0.25, 0.6
# What items of lists begin with; fonts of signs have letters for them.
_MARK = re.compile(rf"(?:\(?[\da-zA-Z]{{1,3}}[.)]|[–—*{DOTS}a-zA-Z-]) ")
_LINE_NUMBER = re.compile(r"\d+ ")


def read_pdf(source: Source) -> Iterator[Item]:
    """Read a PDF as one document, titled by its metadata, else its name; files in it have the key ``<key>/<file name>``.

    Raises ReadError for a damaged or encrypted file, or one without any text (a scan).
    """
    try:
        pdf = pdfium.PdfDocument(source.path if source.data is None else source.data)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            raise source.error("is encrypted; save it without a password") from None
        raise source.error(f"cannot be read as PDF: {error}; is it damaged? Open and save it again") from None
    with pdf:
        if len(pdf) > MAX_PAGES:
            raise source.error(f"has {len(pdf):,} pages; at most {MAX_PAGES:,} are read: split it")
        title, facts = _facts(pdf)
        form = pdf.get_formtype()
        if form == pdfium.raw.FORMTYPE_XFA_FULL:
            source.left_out["form in XFA, which Adobe's programs alone show: print it to a PDF with one"] += 1
        elif form != pdfium.raw.FORMTYPE_NONE:
            # A form that PDFium does not know has its text all the same.
            with suppress(pdfium.PdfiumError):
                pdf.init_forms()
        pages: list[Page] = []
        unreadable: list[int] = []
        pictures: list[int] = []
        cut: list[int] = []
        for number in range(len(pdf)):
            page, has_objects, is_cut = _page(pdf, number, source.left_out)
            if is_cut:
                cut.append(number + 1)
            if page is None:
                unreadable.append(number + 1)
            elif not page and has_objects:
                pictures.append(number + 1)
            pages.append(page or [])
        outline = _outline(pdf)
        attachments = list(own_names(list(_attachments(pdf))))
        garbled = garbled_pages(pages)
        for number in garbled:
            pages[number - 1] = []
        by_number: dict[int, Recognised] = {}
        if source.options.recognises:
            every = range(1, len(pdf) + 1) if source.options.ocr == "always" else ()
            scans = sorted({*pictures, *garbled, *stamped_scans(pdf, pages), *every} - {*unreadable})[:MAX_RECOGNISED]
            yield from recognised_pages(source, drawn_pages(pdf, scans), len(scans), by_number)
        for number, item in by_number.items():
            if item.is_sure:
                pages[number - 1] = item.page
        # Pages that failed or are uncertain get their own warning.
        with_warning = {number for number, item in by_number.items() if item.is_named}
        pictures = [number for number in pictures if number not in with_warning]
        garbled = [number for number in garbled if not pages[number - 1]]
        facts.others |= metadata_of(source, "pages", by_number)
        yield from add_pictures(
            source, pdf, [number for number, page in enumerate(pages, 1) if not page or number in by_number]
        )
    unsure = unsure_text(source, "page", by_number)
    hint = "" if source.options.pictures else "; run OCR on it"
    if source.options.recognises:
        hint = ", nor is any recognised"
    if garbled and not any(pages) and not source.gallery.pictures:
        raise source.error(
            f"the fonts of its {len(pages)} pages do not say which letters they have, so that its text is garbled{hint}"
        )
    if not any(pages) and not attachments and not source.gallery.pictures:
        raise source.error(unsure or f"holds no text in its {len(pages)} pages (a scan?){hint}")
    facts.others["pages"] = len(pages)
    if attachments:
        facts.others["attachments"] = [name for name, _ in attachments]
    content = text_of(pages, outline)
    yield source.document(
        content, "application/pdf", title or title_of(pages) or heading_of(content.partition("\f")[0]), facts
    )
    yield from read_attachments(source, attachments, facts.date_of_version)
    if garbled:
        reason = f"{numbers_text('page', garbled)}: their fonts do not say which letters they have{hint}"
        yield source.warning(f"garbled text left out of {reason}")
    if cut:
        yield source.warning(
            f"more than {MAX_CHARACTERS:,} characters on {numbers_text('page', cut)}: the rest is left out"
        )
    if formulas := [
        number
        for number, page in enumerate(pages, 1)
        if any(_has_formula(line) for block in page for line in block.lines)
    ]:
        yield source.warning(
            f"formulas on {numbers_text('page', formulas)} are their signs alone, without scripts, fractions and roots"
        )
    if unreadable:
        yield source.warning(f"{numbers_text('page', unreadable)} cannot be read")
    if unsure:
        yield source.warning(unsure)
    if pictures:
        yield source.warning(f"no text on {numbers_text('page', pictures)} (pictures?){hint}")


def _page(pdf: pdfium.PdfDocument, number: int, left_out: Counter[str]) -> tuple[Page | None, bool, bool]:
    """Return (blocks of lines in reading order, whether anything is drawn, whether text is left out) of a page.

    The blocks are None where it cannot be read. Films and the like are counted in `left_out`.
    """
    try:
        page = pdf[number]
        try:
            text_page = page.get_textpage()
            try:
                turns = _turns(text_page.raw, min(text_page.count_chars(), MAX_CHARACTERS))
                grids = grids_of([_turned(*box, turns) for box in drawn_lines(page)])
                # A page is turned where its text is.
                upright, aside = _parted(_segments(text_page, turns, grids))
                page_blocks, tables = page_of(upright, grids)
                if len(tables) < len(grids):
                    # Drawn lines outside of tables do not separate words.
                    upright, aside = _parted(_segments(text_page, turns, tables))
                    page_blocks, _ = page_of(upright, tables)
                is_cut = text_page.count_chars() > MAX_CHARACTERS
            finally:
                text_page.close()
            has_objects = bool(upright) or next(iter(page.get_objects(max_depth=1)), None) is not None
            apart = [aside] if aside else []
            apart += [_apart(text, upright) for text in notes_of(page, pdf.formenv, left_out)]
            return page_blocks + [Block([Line([segment])]) for segment in apart], has_objects, is_cut
        finally:
            page.close()
    except pdfium.PdfiumError:
        return None, True, False


def _has_formula(line: Line) -> bool:
    is_formula = any(segment.is_formula for segment in line.segments) and not line.segments[-1].is_code
    return is_formula and _FORMULA_SIGN.search(line.text) is not None


def _segments(text_page: pdfium.PdfTextPage, turns_of_page: int, grids: Sequence[Grid]) -> list[Segment]:
    """Return runs of characters on one line without wide gaps and lines of a table between them."""
    count = min(text_page.count_chars(), MAX_CHARACTERS)
    if count <= 0:
        return []
    raw, handle = pdfium.raw, text_page.raw
    left, right, bottom, top = (c_double() for _ in range(4))
    segments: list[Segment] = []
    characters: list[str] = []
    x0 = x1 = y0 = y1 = size = 0.0
    hyphenated = leftward = follows = False
    first = second = last = together = 0
    last_box = (0.0, 0.0, 0.0, 0.0)
    accent_box: tuple[float, float] | None = None

    def end() -> None:
        nonlocal hyphenated, accent_box, follows
        text = _unspread("".join(characters).strip())
        if text:
            # The number of a code line is in another font.
            is_code, is_bold = _style(handle, second if _LINE_NUMBER.match(text) else first)
            is_code = is_code and (last == first or _style(handle, last)[0])
            turns = (_turn(handle, first) - turns_of_page) % 4
            is_formula = (
                text[0] not in DOTS + "∗"
                and _FORMULA_FONT.search(_font(handle, first)[0]) is not None
                and not _style(handle, last)[0]
            )
            segments.append(
                Segment(x0, y0, x1, y1, size, text, hyphenated, is_code, is_bold, turns, is_formula, follows)
            )
        characters.clear()
        hyphenated = follows = False
        accent_box = None

    for index in range(count):
        code = raw.FPDFText_GetUnicode(handle, index)
        if code in (13, 10) and raw.FPDFText_IsGenerated(handle, index):
            end()
            continue
        if code == 2 or code == 0xFFFE or code == 0xAD:
            # PDFium's mark of a hyphen at the end of a line.
            hyphenated = bool(characters)
            continue
        character = chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd" if code else ""
        if code < _FIRST_SIGN and code != _TAB:
            character = "" if _MATH_FONT.search(_font(handle, index)[0]) else _TEX_SIGNS.get(code, "")
        if not character:
            continue
        if character in _GENERATED_SPACES:
            if characters and characters[-1] != " ":
                characters.append(" ")
            continue
        if not raw.FPDFText_GetCharBox(handle, index, left, right, bottom, top):
            continue
        a, b, c, d = _turned(left.value, right.value, bottom.value, top.value, turns_of_page)
        is_leftward = code >= _FIRST_LEFTWARD and LEFTWARD.match(character) is not None
        if is_leftward != leftward and characters and character.isalpha():
            if any(map(str.isalpha, characters)):
                end()
            leftward = is_leftward
        if characters:
            gap = x0 - b if leftward else a - x1
            em = size or (y1 - y0) or 10.0
            is_elsewhere = c > y1 + em * 0.2 or d < y0 - em * 0.2
            # A line within a word is one of a drawing.
            is_wide = gap > em * (_LEAST_GAP if characters[-1] == " " else _GAP_OF_CELLS)
            is_parted = is_wide and any(
                grid.parts(b, x0, (c + d) / 2) if leftward else grid.parts(x1, a, (c + d) / 2) for grid in grids
            )
            if is_elsewhere or gap > em * 1.3 or gap < -em * 3 or is_parted:
                end()
            elif (
                gap > em * _NARROW_GAP
                and characters[-1] == " "
                and not leftward
                and not _CJK_PAIR.match(character * 2)
                and not _MARK.fullmatch("".join(characters))
                and not _style(handle, first)[0]
            ):
                end()
                follows = True
            elif hyphenated:
                characters.append("-")
                hyphenated = False
        if not characters:
            first, size = index, _size(handle, index)
            x0, x1, y0, y1 = a, b, c, d
            leftward = is_leftward
        else:
            x0, x1, y0, y1 = min(x0, a), max(x1, b), min(y0, c), max(y1, d)
        box = (a, b, c, d)
        # For a glyph of several letters, PDFium gives the last letter first if a line is read from the right.
        together = together + 1 if leftward and characters and box == last_box and character.isalpha() else 0
        if characters and characters[-1] == " " and second <= first:
            second = index
        if accent_box and character.isalpha() and a <= sum(accent_box) / 2 <= b:
            # Old fonts of TeX have no letters with accents: these are drawn first, above the letter.
            while characters[-1] == " ":
                characters.pop()
            character = _accented(character, characters.pop())
        elif (
            character in _ACCENTS
            and characters
            and characters[-1].isalpha()
            and last_box[0] <= (a + b) / 2 <= last_box[1]
        ):
            character = _accented(characters.pop(), character)
        accent_box = (a, b) if character in _ACCENTS and not leftward else None
        characters.insert(len(characters) - together, character)
        last, last_box = index, box
    end()
    return segments


def _accented(letter: str, accent: str) -> str:
    """Return a letter combined with the separate accent before it."""
    return normalize("NFC", _DOTLESS.get(letter, letter) + _ACCENTS[accent])


def _turn(text_page: Any, index: int) -> int:
    """Return how many quarters of a turn a character has to the right."""
    return round(float(pdfium.raw.FPDFText_GetCharAngle(text_page, index)) / (pi / 2)) % 4


def _turns(text_page: Any, count: int) -> int:
    """Return how most characters of a page are turned: tables that are too wide are set sideways."""
    turns = Counter(_turn(text_page, index) for index in range(0, count, max(1, count // _LOOKED_AT)))
    return turns.most_common(1)[0][0] if turns else 0


def _turned(left: float, right: float, bottom: float, top: float, turns: int) -> tuple[float, float, float, float]:
    """Return a box (left, right, bottom, top) as on a page that is turned back."""
    if turns == 1:
        return -top, -bottom, left, right
    if turns == _UPSIDE_DOWN:
        return -right, -left, -top, -bottom
    return (bottom, top, -right, -left) if turns else (left, right, bottom, top)


def _parted(segments: list[Segment]) -> tuple[list[Segment], Segment | None]:
    """Return the segments that are turned as most text of the page is, and all others as one: stamps in the margin, axes."""
    lengths: Counter[int] = Counter()
    for segment in segments:
        lengths[segment.turns] += len(segment.text)
    if len(lengths) < 2:
        return segments, None
    ((turns, _),) = lengths.most_common(1)
    upright = [segment for segment in segments if segment.turns == turns]
    others = [segment for segment in segments if segment.turns != turns]
    return upright, _apart(" ".join(segment.text for segment in others), upright)


def _apart(text: str, segments: Sequence[Segment]) -> Segment:
    """Return text of a page that belongs to no line, heading or running head."""
    size, height = (
        (median(segment.size for segment in segments), median(segment.y0 for segment in segments))
        if segments
        else (10.0, 400.0)
    )
    return Segment(0.0, height, 0.0, height, size, text)


def _unspread(text: str) -> str:
    """Return a line without the spaces between Han and kana where most have one: type that is spread to fill the line."""
    spaces = len(_CJK_SPACE.findall(text))
    if spaces < _MIN_SPREAD or spaces <= len(_CJK_PAIR.findall(text)):
        return text
    return _CJK_SPACE.sub("", text)


def _size(text_page: Any, index: int) -> float:
    """Return the type size of a character as drawn, in points."""
    matrix = pdfium.raw.FS_MATRIX()
    size = float(pdfium.raw.FPDFText_GetFontSize(text_page, index))
    if pdfium.raw.FPDFText_GetMatrix(text_page, index, matrix):
        size *= hypot(matrix.c, matrix.d) or 1.0
    return size


def _font(text_page: Any, index: int) -> tuple[str, int]:
    """Return the name of the font of a character, and its flags."""
    name, flags = create_string_buffer(128), c_int()
    pdfium.raw.FPDFText_GetFontInfo(text_page, index, name, len(name), flags)
    return name.value.decode("utf-8", "replace"), flags.value


def _style(text_page: Any, index: int) -> tuple[bool, bool]:
    """Return whether the font of a character is one for code, and whether it is bold."""
    font, flags = _font(text_page, index)
    return bool(flags & _FIXED_PITCH) or _CODE_FONT.search(font) is not None, _BOLD_FONT.search(font) is not None


def _attachments(pdf: pdfium.PdfDocument) -> Iterator[tuple[str, bytes]]:
    for index in range(min(pdf.count_attachments(), MAX_ATTACHMENTS + 1)):
        with suppress(pdfium.PdfiumError):
            attachment = pdf.get_attachment(index)
            yield attachment.get_name(), bytes(attachment.get_data())


def _outline(pdf: pdfium.PdfDocument) -> dict[int, list[Entry]]:
    """Return {page from 0: entries (level from 1, title)} of the file's outline."""
    entries: dict[int, list[Entry]] = {}
    try:
        for count, bookmark in enumerate(pdf.get_toc(max_depth=6)):
            destination = bookmark.get_dest()
            index = destination.get_index() if destination is not None else None
            if count >= _MAX_OUTLINE:
                break
            if index is not None and (title := " ".join(bookmark.get_title().split())):
                entries.setdefault(index, []).append(Entry(bookmark.level + 1, title))
    except (pdfium.PdfiumError, ValueError, AttributeError):
        return {}
    return entries


def _facts(pdf: pdfium.PdfDocument) -> tuple[str | None, Facts]:
    values = {name: value.strip() for name, value in pdf.get_metadata_dict(skip_empty=True).items()}
    values = {name: value for name, value in values.items() if not _UNSAID.fullmatch(value)}
    title = values.get("Title")
    facts = Facts(
        author=values.get("Author"),
        created=_time(values.get("CreationDate", "")),
        modified=_time(values.get("ModDate", "")),
        others={name.lower(): values[name] for name in ("Subject", "Keywords") if values.get(name)},
    )
    return None if not title or _NO_TITLE.fullmatch(title) else title, facts


def _time(text: str) -> datetime | None:
    match = _DATE.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, zone = match.groups()
    offset = timedelta()
    if zone and zone != "Z":
        digits = zone.replace("'", "")
        offset = timedelta(hours=int(digits[1:3]), minutes=int(digits[3:5])) * (-1 if digits[0] == "-" else 1)
    try:
        numbers = (int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0))
        return datetime(*numbers, tzinfo=timezone(offset) if offset else UTC)
    except ValueError:
        return None
