"""Parts of Word that mammoth does not know: check boxes and lists of forms, and styles that inherit from a heading
style.
"""

import re

from lxml import etree

from pg_graphrag.beside.readers.elements import inherited
from pg_graphrag.beside.readers.markdown import CHECKED, UNCHECKED

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_VALUE = f"{_WORD}val"
_CODE = re.compile("[0-9A-Fa-f]{1,5}")
_DINGBATS = ("Symbol", "Wingdings", "Webdings")
_OFF = frozenset(("0", "false", "off"))
_DEEPEST_HEADING = 6
# How programs call the styles of headings where they do not keep to Word's own names.
_HEADING = re.compile(
    "(?:heading|überschrift|titre|título|titulo|titolo|encabezado|заголовок|見出し|标题|標題|제목)[ _-]?([1-6])",
    re.IGNORECASE,
)
_STYLE = f"{_WORD}pStyle"


def write_fields(root: etree._Element) -> None:
    """Put what check boxes and lists of a form say as text in their places."""
    for control in list(root.iter(f"{_WORD}sdt")):
        _write_control(control)
    state: str | None = None
    for mark in list(root.iter(f"{_WORD}fldChar", f"{_WORD}instrText")):
        if mark.tag != f"{_WORD}fldChar":
            # An instruction may be cut: FORM and CHECKBOX.
            mark.text = mark.text if state is None else ""
            continue
        state = _legacy_state(mark)
        if state is not None:
            text = etree.Element(f"{_WORD}t")
            text.text = state
            mark.addnext(text)
    for sign in root.iter(f"{_WORD}sym"):
        code = int(sign.get(f"{_WORD}char", ""), 16) if _CODE.fullmatch(sign.get(f"{_WORD}char", "")) else 0
        if 0x20 < code < 0xD800 and not sign.get(f"{_WORD}font", "").startswith(_DINGBATS):
            # A sign of a font that has Unicode's numbers; mammoth knows those of dingbats alone, which are private, or a byte.
            sign.tag, sign.text = f"{_WORD}t", chr(code)
    for paragraph in root.iter(f"{_WORD}pPr"):
        if level := _outline(paragraph):
            style = paragraph.find(_STYLE)
            if style is None:
                style = etree.Element(_STYLE)
                paragraph.insert(0, style)
            style.set(_VALUE, f"Heading{level}")


def _write_control(control: etree._Element) -> None:
    properties, content = control.find(f"{_WORD}sdtPr"), control.find(f"{_WORD}sdtContent")
    if properties is None or content is None:
        return
    box = properties.find("{*}checkbox")
    if box is not None:
        # mammoth would turn it into an input without text.
        properties.remove(box)
        is_checked = next((_is_on(state) for state in box.iterfind("{*}checked")), False)
        _write(content, CHECKED if is_checked else UNCHECKED)
    elif not any((text.text or "").strip() for text in content.iter(f"{_WORD}t")):
        choices = next(properties.iter(f"{_WORD}dropDownList", f"{_WORD}comboBox"), None)
        date = properties.find(f"{_WORD}date")
        if choices is not None:
            value = choices.get(f"{_WORD}lastValue", "")
            labels = {item.get(f"{_WORD}value"): item.get(f"{_WORD}displayText") for item in choices}
            _write(content, labels.get(value) or value)
        elif date is not None:
            _write(content, date.get(f"{_WORD}fullDate", "").partition("T")[0])


def _write(content: etree._Element, text: str) -> None:
    """Replace the texts of a control by a text."""
    runs = list(content.iter(f"{_WORD}r"))
    for run in runs:
        for part in run.findall(f"{_WORD}t") + run.findall(f"{_WORD}sym"):
            run.remove(part)
    if not runs:
        parent = next(content.iter(f"{_WORD}p"), content)
        runs = [etree.SubElement(parent, f"{_WORD}r")]
    etree.SubElement(runs[0], f"{_WORD}t").text = text


def _legacy_state(mark: etree._Element) -> str | None:
    """Return the state of a check box or list of a form that begins at a mark as Word had them before 2007."""
    data = mark.find(f"{_WORD}ffData") if mark.get(f"{_WORD}fldCharType") == "begin" else None
    if data is None:
        return None
    if data.find(f"{_WORD}checkBox") is not None:
        return _legacy_box(data)
    return _legacy_choice(data) if data.find(f"{_WORD}ddList") is not None else None


def _legacy_box(data: etree._Element) -> str:
    # The checked state stands behind the default.
    states = list(data.iter(f"{_WORD}default", f"{_WORD}checked"))
    return CHECKED if states and _is_on(states[-1]) else UNCHECKED


def _legacy_choice(data: etree._Element) -> str:
    choices = [item.get(_VALUE, "") for item in data.iter(f"{_WORD}listEntry")]
    chosen = next((item.get(_VALUE, "") for item in data.iter(f"{_WORD}result", f"{_WORD}default")), "0")
    return choices[int(chosen)] if chosen.isdecimal() and int(chosen) < len(choices) else ""


def _is_on(state: etree._Element) -> bool:
    return next((value for name, value in state.items() if etree.QName(name).localname == "val"), "1") not in _OFF


def _value(parent: etree._Element, name: str) -> str:
    element = parent.find(f"{_WORD}{name}")
    return "" if element is None else element.get(_VALUE, "")


def _outline(properties: etree._Element) -> int | None:
    """Return the level of a heading from 1, 0 for text; None if nothing is said."""
    value = _value(properties, "outlineLvl")
    if not value.isdecimal():
        return None
    return int(value) + 1 if int(value) < _DEEPEST_HEADING else 0


def with_headings(root: etree._Element) -> bool:
    """Rename heading styles, recognised by their level or base style, so that mammoth knows them; return whether there are
    any.
    """
    styles = {
        style.get(f"{_WORD}styleId", ""): style
        for style in root.iterfind(f"{_WORD}style")
        if style.get(f"{_WORD}type") == "paragraph"
    }
    own = {name: level for name, style in styles.items() if (level := _own_level(style)) is not None}
    parents = {name: _value(style, "basedOn") for name, style in styles.items()}
    is_changed = False
    for style_id, level in inherited(own, parents, 0).items():
        name = styles[style_id].find(f"{_WORD}name") if level else None
        if name is not None and name.get(_VALUE) != f"heading {level}":
            name.set(_VALUE, f"heading {level}")
            is_changed = True
    return is_changed


def _own_level(style: etree._Element) -> int | None:
    if match := _HEADING.fullmatch(_value(style, "name").strip()):
        return int(match[1])
    properties = style.find(f"{_WORD}pPr")
    return None if properties is None else _outline(properties)
