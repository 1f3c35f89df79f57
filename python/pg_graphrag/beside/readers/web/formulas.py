"""Formulas of Word (OMML) and of web pages and books (MathML) as a line of text: `(a+b)/2`, `x_1^2`, `sqrt(n)`."""

from lxml import etree

# Scripts, by the element's children after the base.
_SCRIPTS = {
    **dict.fromkeys(("sSub", "msub", "munder", "limLow"), "_"),
    **dict.fromkeys(("sSup", "msup", "mover", "limUpp"), "^"),
    **dict.fromkeys(("sSubSup", "msubsup", "munderover"), "_^"),
}
_UNREAD = frozenset(("annotation", "annotation-xml", "mphantom", "rPr", "del"))
# Application of a function, multiplication, separator and addition that are not drawn.
_INVISIBLE = dict.fromkeys(range(0x2061, 0x2065), " ")
# A hostile file nests formulas deeper than Python's stack.
_DEEPEST = 100


def formula_text(formula: etree._Element) -> str:
    """Return a formula as a line of text; its TeX, if it comes with any, unchanged."""
    for annotation in formula.iter("{*}annotation"):
        if annotation.get("encoding") in ("application/x-tex", "TeX", "LaTeX") and annotation.text:
            return " ".join(annotation.text.split())
    return " ".join(_text(formula, 0).translate(_INVISIBLE).split())


def _text(element: etree._Element, depth: int) -> str:
    name = _name(element)
    if depth > _DEEPEST:
        return " ".join("".join(element.itertext()).split())
    if name in _UNREAD or name.endswith("Pr"):
        return ""
    children = [child for child in element if isinstance(child.tag, str) and not _name(child).endswith("Pr")]
    if not children:
        text = "".join((element.text or "").split()) if name in ("mi", "mn", "mo") else element.text or ""
        return f" {text} " if name == "mo" and len(text) > 1 else text
    parts = [_text(child, depth + 1) for child in children]
    if name in ("f", "mfrac") and len(parts) == 2:
        return f"{_grouped(parts[0])}/{_grouped(parts[1])}"
    if name in _SCRIPTS and len(parts) == len(_SCRIPTS[name]) + 1:
        scripts = zip(_SCRIPTS[name], parts[1:], strict=True)
        return parts[0] + "".join(f"{mark}{_grouped(part)}" for mark, part in scripts if part.strip())
    if name == "nary":
        sign = _property(element, "chr") or "∫"
        scripts = zip("_^", parts[:2], strict=False)
        return sign + "".join(f"{mark}{_grouped(part)}" for mark, part in scripts if part.strip()) + f" {parts[-1]}"
    if name in ("rad", "mroot", "msqrt"):
        root = parts[0] if name == "mroot" else parts[-1] if name == "rad" else "".join(parts)
        degree = parts[-1] if name == "mroot" else parts[0] if name == "rad" and len(parts) > 1 else ""
        return f"sqrt{f'[{degree}]' if degree.strip() else ''}({root})"
    if name == "d":
        begin, end = (_property(element, part) for part in ("begChr", "endChr"))
        return f"{'(' if begin is None else begin}{', '.join(parts)}{')' if end is None else end}"
    if name == "func" and len(parts) == 2:
        return f" {parts[0]} {parts[1]}"
    if name == "mfenced":
        return f"{element.get('open', '(')}{', '.join(parts)}{element.get('close', ')')}"
    if name in ("m", "eqArr", "mtable"):
        return f"[{'; '.join(parts)}]" if len(parts) > 1 else parts[0]
    if name in ("mr", "mtr", "mlabeledtr"):
        return ", ".join(parts)
    return "".join(parts)


def _name(element: etree._Element) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def _grouped(text: str) -> str:
    text = text.strip()
    return text if len(text) == 1 or text.isdecimal() else f"({text})"


def _property(element: etree._Element, name: str) -> str | None:
    """Return the value of a property that Word states; None where it does not."""
    for part in element.iterfind(f"{{*}}{_name(element)}Pr/{{*}}{name}"):
        return next((value for key, value in part.attrib.items() if etree.QName(key).localname == "val"), "")
    return None
