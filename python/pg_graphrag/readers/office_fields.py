"""What mammoth does not know of Word: check boxes and lists of forms, and styles that are headings by what they rest on."""

import re
from collections.abc import Iterator

from lxml import etree

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_VALUE = f"{_WORD}val"
CHECKED, UNCHECKED = "☒", "☐"
_OFF = frozenset(("0", "false", "off"))
_DEEPEST_HEADING = 6
# How programs call the styles of headings where they do not keep to Word's own names.
_HEADING = re.compile(
    r"(?:heading|überschrift|titre|título|titulo|titolo|kop|rubrik|overskrift|nagłówek|заголовок|nadpis|otsikko|başlık|címsor"
    r"|encabezado|cabeçalho|見出し|标题|標題|제목)[ _-]?([1-6])",
    re.IGNORECASE,
)
# From the beginning of a field to its instruction.
_MOST_RUNS = 20
_LEGACY = re.compile(r"\s*(FORMCHECKBOX|FORMDROPDOWN)\b")


def write_fields(root: etree._Element) -> None:
    """Put what check boxes and lists of a form say as text in their places."""
    for control in list(root.iter(f"{_WORD}sdt")):
        _write_control(control)
    for instruction in list(root.iter(f"{_WORD}instrText")):
        if match := _LEGACY.match(instruction.text or ""):
            begin = next(_begins(instruction), None)
            data = None if begin is None else begin.find(f"{_WORD}ffData")
            instruction.text = ""
            if begin is not None and data is not None:
                text = etree.Element(f"{_WORD}t")
                text.text = _legacy_box(data) if match[1] == "FORMCHECKBOX" else _legacy_choice(data)
                begin.addnext(text)
    for paragraph in root.iter(f"{_WORD}pPr"):
        level = _outline(paragraph)
        if level and paragraph.find(f"{_WORD}pStyle") is None:
            paragraph.insert(0, etree.Element(f"{_WORD}pStyle", {_VALUE: f"Heading{level}"}))


def _write_control(control: etree._Element) -> None:
    properties, content = control.find(f"{_WORD}sdtPr"), control.find(f"{_WORD}sdtContent")
    if properties is None or content is None:
        return
    box = properties.find("{*}checkbox")
    if box is not None:
        # mammoth makes an input of it, which is no text.
        properties.remove(box)
        is_checked = next((_is_on(state) for state in box.iterfind("{*}checked")), False)
        _write(content, CHECKED if is_checked else UNCHECKED)
    elif not any((text.text or "").strip() for text in content.iter(f"{_WORD}t")):
        choices = next(properties.iter(f"{_WORD}dropDownList", f"{_WORD}comboBox"), None)
        date = properties.find(f"{_WORD}date")
        if choices is not None:
            value = choices.get(f"{_WORD}lastValue", "")
            shown = {item.get(f"{_WORD}value"): item.get(f"{_WORD}displayText") for item in choices}
            _write(content, shown.get(value) or value)
        elif date is not None:
            _write(content, date.get(f"{_WORD}fullDate", "").partition("T")[0])


def _write(content: etree._Element, text: str) -> None:
    """Put a text in place of those of a control."""
    runs = list(content.iter(f"{_WORD}r"))
    for run in runs:
        for part in run.findall(f"{_WORD}t") + run.findall(f"{_WORD}sym"):
            run.remove(part)
    if not runs:
        parent = next(content.iter(f"{_WORD}p"), content)
        runs = [etree.SubElement(parent, f"{_WORD}r")]
    etree.SubElement(runs[0], f"{_WORD}t").text = text


def _begins(instruction: etree._Element) -> Iterator[etree._Element]:
    """Yield the beginning of the field that an instruction is of."""
    run = instruction.getparent()
    for _ in range(_MOST_RUNS):
        if run is None:
            return
        for mark in run.iterfind(f"{_WORD}fldChar"):
            if mark.get(f"{_WORD}fldCharType") == "begin":
                yield mark
        run = run.getprevious()


def _legacy_box(data: etree._Element) -> str:
    state = next(data.iter(f"{_WORD}checked"), None)
    state = next(data.iter(f"{_WORD}default"), None) if state is None else state
    return CHECKED if state is not None and _is_on(state) else UNCHECKED


def _legacy_choice(data: etree._Element) -> str:
    choices = [item.get(_VALUE, "") for item in data.iter(f"{_WORD}listEntry")]
    chosen = next((item.get(_VALUE, "") for item in data.iter(f"{_WORD}result", f"{_WORD}default")), "0")
    return choices[int(chosen)] if chosen.isdecimal() and int(chosen) < len(choices) else ""


def _is_on(state: etree._Element) -> bool:
    return next((value for name, value in state.items() if etree.QName(name).localname == "val"), "1") not in _OFF


def _outline(properties: etree._Element) -> int | None:
    """Return the level of a heading from 1, 0 for one of text; None where nothing is said."""
    level = properties.find(f"{_WORD}outlineLvl")
    value = "" if level is None else level.get(_VALUE, "")
    if not value.isdecimal():
        return None
    return int(value) + 1 if int(value) < _DEEPEST_HEADING else 0


def with_headings(root: etree._Element) -> bool:
    """Name styles that are headings, by their level or what they are based on, as mammoth knows them; whether there are some."""
    styles = {
        style.get(f"{_WORD}styleId", ""): style
        for style in root.iterfind(f"{_WORD}style")
        if style.get(f"{_WORD}type") == "paragraph"
    }
    levels: dict[str, int] = {}
    for first in styles:
        way: dict[str, None] = {}
        name, level = first, levels.get(first)
        while level is None:
            way[name] = None
            level = _own_level(styles[name])
            based_on = styles[name].find(f"{_WORD}basedOn")
            name = "" if based_on is None else based_on.get(_VALUE, "")
            if level is None:
                level = levels.get(name, 0 if name in way or name not in styles else None)
        # Each style is passed once: what is found is of all on the way.
        levels |= dict.fromkeys(way, level)
    is_changed = False
    for name, level in levels.items():
        own = styles[name].find(f"{_WORD}name")
        if level and own is not None and own.get(_VALUE) != f"heading {level}":
            own.set(_VALUE, f"heading {level}")
            is_changed = True
    return is_changed


def _own_level(style: etree._Element) -> int | None:
    name = style.find(f"{_WORD}name")
    if match := _HEADING.fullmatch("" if name is None else name.get(_VALUE, "").strip()):
        return int(match[1])
    properties = style.find(f"{_WORD}pPr")
    return None if properties is None else _outline(properties)
