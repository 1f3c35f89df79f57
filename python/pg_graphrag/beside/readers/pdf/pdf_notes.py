"""Form values and readers' notes on a PDF page."""

from collections import Counter
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_ushort, cast, create_string_buffer
from functools import partial
from typing import Any

import pypdfium2 as pdfium

_MAX_NOTES = 5_000
_MAX_BYTES = 1 << 20
_HIDDEN = 2 | 32
_MEDIA = {
    pdfium.raw.FPDF_ANNOT_SOUND: "sound",
    pdfium.raw.FPDF_ANNOT_MOVIE: "video",
    pdfium.raw.FPDF_ANNOT_RICHMEDIA: "video",
    pdfium.raw.FPDF_ANNOT_THREED: "model in three dimensions",
}


def notes_of(page: pdfium.PdfPage, form: Any, left_out: Counter[str]) -> Iterator[str]:
    """Yield "name: value" of each filled-in form field, text added to the page, and notes.

    `form` is the environment of the file's form; None if it has none. Films and sounds are counted in `left_out`.
    """
    raw = pdfium.raw
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MAX_NOTES)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            if raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN:
                continue
            subtype = raw.FPDFAnnot_GetSubtype(annotation)
            if subtype in _MEDIA:
                left_out[_MEDIA[subtype]] += 1
            if subtype == raw.FPDF_ANNOT_WIDGET:
                if field := _field(form, annotation):
                    yield field
            elif subtype not in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP) and (
                contents := _text(partial(raw.FPDFAnnot_GetStringValue, annotation, b"Contents"))
            ):
                yield contents if subtype == raw.FPDF_ANNOT_FREETEXT else f"Note: {contents}"
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _field(form: Any, annotation: Any) -> str:
    raw = pdfium.raw
    kind = -1 if form is None else raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind < 0:
        # A page that was taken out of a form.
        return _loose_field(annotation)
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        value = "yes" if raw.FPDFAnnot_IsChecked(form, annotation) else ""
    elif kind in (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        value = _text(partial(raw.FPDFAnnot_GetFormFieldValue, form, annotation))
    else:
        return ""
    name = _text(partial(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation))
    name = name or _text(partial(raw.FPDFAnnot_GetFormFieldName, form, annotation))
    return f"{name}: {value}" if value and name else value


def _loose_field(annotation: Any) -> str:
    """Return a field outside of any form: texts and choices."""
    kind, value, name, alternate = (
        _text(partial(pdfium.raw.FPDFAnnot_GetStringValue, annotation, key)) for key in (b"FT", b"V", b"T", b"TU")
    )
    name = alternate or name
    return (f"{name}: {value}" if name else value) if value and kind in ("Tx", "Ch") else ""


def _text(read: Callable[[Any, int], int]) -> str:
    """Return the text that PDFium writes into a buffer of so many bytes, on one line."""
    size = min(read(None, 0), _MAX_BYTES)
    if size <= 2:
        return ""
    buffer = create_string_buffer(size)
    read(cast(buffer, POINTER(c_ushort)), size)
    return " ".join(buffer.raw[: size - 2].decode("utf-16-le", "replace").split())
