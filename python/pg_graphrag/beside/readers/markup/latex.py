r"""LaTeX to Markdown: headings, lists, tables, formulas and code, without preamble, labels, references and index
terms.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping

from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.markup.lines import MarkdownLines, note_included
from pg_graphrag.beside.readers.source import Facts, Source, as_time
from pg_graphrag.beside.readers.tables import table_text
from pg_graphrag.ground.document import Document

_INCLUDED = re.compile(r"\\(?:input|include|subfile)\{([^{}\n#]{1,1000})\}")
_COMMENT = re.compile(r"^[ \t]*%[^\n]*\n|(?:(?<!\\)|(?<=[^\\]\\\\))%[^\n]*(?:\n[ \t]*(?=\S))?", re.MULTILINE)
_BEGIN = "\\begin{document}"
_VERBATIM = frozenset("verbatim verbatim* Verbatim lstlisting minted alltt BVerbatim code".split())
_FORMULAS = frozenset(
    "equation equation* align align* gather gather* multline multline* displaymath math eqnarray eqnarray* flalign flalign*"
    " alignat alignat* dmath dmath* mathpar mathpar* narrowmultline narrowmultline*".split()
)
# Environments defined by authors that say what they hold: \begin{snip}{haskell}.
_PROGRAM = re.compile(
    r"\{(?:bash|c|c\+\+|cpp|console|css|go|haskell|html|java|javascript|json|kotlin|lisp|matlab|ocaml|perl|php|python|r|ruby|rust"
    r"|scala|sh|shell|sql|swift|text|typescript|xml|yaml)\}"
)
# What a command of an author's own names on a line of its own: a file, a key.
_FILE = re.compile(r"\{(?=[^{}\s]{0,100}[\d_/.:])[\w./:-]{1,100}\}(?=[ \t]*\n)")
_UNREAD = frozenset(
    "comment tikzpicture picture pspicture filecontents filecontents* tikzcd xy thebibliography".split()
)
_TABLES = frozenset("tabular tabular* tabularx longtable array tabulary tabu".split())
_LEVELS = {
    "part": 1,
    "chapter": 1,
    "section": 2,
    "subsection": 3,
    "subsubsection": 4,
    "paragraph": 5,
    "subparagraph": 6,
}
# Commands whose arguments say nothing to a reader. Commands of references and of the index come in many kinds.
_SILENT = re.compile(
    r"(?:label|index\w*|\w{0,12}cite\w{0,12}|nocite|\w{0,6}ref|ref\w{0,4}|cref\w*|Cref\w*|[vh]space|vskip|hskip|includegraphics"
    r"|bibliography\w*|input|include|usepackage|documentclass|RequirePackage|(?:re)?newcommand|providecommand|newenvironment"
    r"|renewenvironment|DeclareMathOperator|DeclareGraphicsExtensions|newtheorem|theoremstyle|setcounter|addtocounter|stepcounter"
    r"|setlength|addtolength|pagestyle|thispagestyle|pagenumbering|hypersetup|graphicspath|color|definecolor|fontsize"
    r"|addcontentsline|markboth|markright|phantomsection|input\w*|newlength|newcounter|newif|usetikzlibrary|lstset|title|author"
    r"|date|thanks|titleformat|titlespacing|hyphenation|selectlanguage|setdefaultlanguage|linespread|vfill|hfill|captionsetup|geometry|symlabel|indexdef|bibitem"
    r"|protect|noexpand|let|def|edef|gdef|PassOptionsToPackage|rule)"
)
# Only the last argument of these is text.
_CODE = frozenset(("texttt", "verb", "lstinline", "code", "path"))
_SIGNS = {
    "ldots": "…", "dots": "…", "textendash": "–", "textemdash": "—", "textbackslash": "\\", "ss": "ß", "ae": "æ", "AE": "Æ",
    "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "aa": "å", "AA": "Å", "l": "ł", "L": "Ł", "i": "ı", "S": "§", "P": "¶",
    "copyright": "©", "textregistered": "®", "texttrademark": "™", "textquotedblleft": "“", "textquotedblright": "”",
    "guillemotleft": "«", "guillemotright": "»", "og": "«", "fg": "»", "par": "\n\n", "newline": "\n", "quad": " ", "qquad": " ",
    "euro": "€", "pounds": "£", "textgreater": ">", "textless": "<", "textbar": "|", "textasciitilde": "~", "slash": "/",
}  # fmt: skip
_ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", '"': "\u0308", "=": "\u0304", ".": "\u0307",
    "c": "\u0327", "v": "\u030c", "u": "\u0306", "H": "\u030b", "r": "\u030a", "k": "\u0328", "d": "\u0323",
}  # fmt: skip
_TOKEN = re.compile(
    r"\\(?P<command>[A-Za-z@]+\*?|[^A-Za-z@])|(?P<sign>[{}&~])|(?P<kept>\x02\d+\x03)|(?P<quotes>``|''|---?)"
    r"|(?P<text>[^\\{}&~\x02`'-]+|.)",
    re.DOTALL,
)
_GAP = re.compile(r"[ \t]*\n?[ \t]*")
_OPTION = re.compile(r"\[(?P<text>[^\[\]]{0,500})\]")
_NAME = re.compile(r"\s{0,5}\{(?P<name>[A-Za-z]{1,30}\*?)\}")
_VERB = re.compile(r"\\(?:verb|lstinline)\*?(?P<mark>[^\sA-Za-z*{\[])(?P<code>[^\n]{0,300}?)(?P=mark)")
_OPENING = re.compile(
    r"\\begin\{(?P<name>[A-Za-z]{1,30}\*?)\}|(?<!\\)\$\$?|\\\[|\\\(|(?:(?<!\\)|(?<=[^\\]\\\\))%[^\n]*"
)
_MINTED = re.compile(r"(?:\[[^\[\]\n]{0,300}\])?(?:\{(?P<language>\w{1,20})\})?[^\n]*\n?")
_QUOTES = {"``": "“", "''": "”", "--": "–", "---": "—"}
# Tables within each other that are tables: a cell is written once for each that it stands in.
_DEEPEST_TABLE = 8
_CELL, _ROW = "\x1d", "\x1e"
_ARGUMENTS = 9


def read_latex(source: Source) -> Iterator[Document]:
    """Read a LaTeX file as one document, titled by its ``title``, else its first heading, else its name."""
    text = decode(source.read(), source).translate(_CONTROLS)
    begin = text.find(_BEGIN)
    head = text if begin < 0 else text[:begin] + text[begin : begin + _LONGEST_HEAD]
    head = _COMMENT.sub("", head)
    body = text if begin < 0 else text[begin + len(_BEGIN) :].partition("\\end{document}")[0]
    names = _names(text)
    reading = _Text(body, names)
    note_included(source, reading.included())
    content = reading.markdown()
    facts = Facts(author=_argument(head, "author", names), published=as_time(_argument(head, "date", names)))
    yield source.document(content, "text/x-tex", _argument(head, "title", names) or reading.title, facts)


# Control characters mark text that is kept unchanged.
_CONTROLS = dict.fromkeys(map(ord, "\x02\x03\x1d\x1e"))
_LONGEST_HEAD = 5000
_AND = re.compile(r"\s{0,10}(?<!\\)\\and\b\s{0,10}")


# \newcommand{\sys}{Kestrel\xspace}, \def\sys{Kestrel}: a command without arguments that stands for a text.
_DEFINITION = re.compile(
    r"\\(?:(?:re)?newcommand\*?|providecommand\*?|DeclareRobustCommand\*?|def)\s{0,5}"
    r"(?:\{\s{0,5}\\(?P<braced>[A-Za-z]{1,40})\s{0,5}\}|\\(?P<bare>[A-Za-z]{1,40}))\s{0,5}(?=\{)"
)
_LONGEST_NAME = 200


def _names(text: str) -> dict[str, str]:
    """Return {command that the author defines: its short text}; commands for formulas are left out."""
    text = _COMMENT.sub("", text)
    partners = _partners(text)
    names: dict[str, str] = {}
    for match in _DEFINITION.finditer(text):
        made_of = text[match.end() + 1 : partners.get(match.end(), 0)]
        if not 0 < len(made_of) <= _LONGEST_NAME or _MATHEMATICAL.search(made_of):
            continue
        # In order: a definition uses only earlier ones, so no text grows beyond this.
        name = " ".join(_Text(made_of, names).markdown().split())
        if len(name) <= _LONGEST_NAME and any(map(str.isalpha, name)):
            names[match["braced"] or match["bare"]] = name
    return names


# Definitions for formulas.
_MATHEMATICAL = re.compile(r"[$^_]|\\(?:math|operatorname|frac|left|right|ensuremath|bm\b|boldsymbol)")


def _argument(text: str, name: str, names: Mapping[str, str]) -> str | None:
    r"""Return the text of a command's argument, as in \title{…}."""
    match = re.search(rf"\\{name}\s{{0,5}}(?:\[[^\[\]]{{0,200}}\]\s{{0,5}})?(?=\{{)", text)
    if match is None:
        return None
    argument = _AND.sub(", ", text[match.end() : match.end() + _LONGEST_HEAD])
    end = _partners(argument).get(0)
    return " ".join(_Text(argument[1:end], names).markdown().split()) or None if end else None


def _partners(text: str) -> dict[int, int]:
    """Return {place of a brace that opens: place of the one that closes it}."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    for match in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        if match[0] == "{":
            opened.append(match.start())
        elif match[0] == "}" and opened:
            partners[opened.pop()] = match.start()
    return partners


class _Text:
    """A text, read once from its first character to its last. `names`: what commands of the author's own stand for."""

    def __init__(self, text: str, names: Mapping[str, str]) -> None:
        self._names = names
        self.title: str | None = None
        # Code and formulas, as Markdown.
        self._verbatim: list[str] = []
        self._text = _COMMENT.sub("", self._without_code(text))
        self._partners = _partners(self._text)
        self._written: list[str] = []
        # What to add at the place of a closing brace.
        self._due: dict[int, tuple[str, int]] = {}
        self._environments: list[tuple[str, int]] = []
        self._open_tables = 0
        self._is_in_heading = False

    def included(self) -> list[str]:
        """Return the files that it includes."""
        return _INCLUDED.findall(self._text)

    def markdown(self) -> str:
        """Return the text as Markdown."""
        place = 0
        while place < len(self._text):
            token = _TOKEN.match(self._text, place)
            if token is None:
                break
            place = token.end()
            if command := token["command"]:
                place = self._command(command.rstrip("*") if len(command) > 1 else command, place)
            elif token["sign"]:
                self._sign(token["sign"], token.start())
            elif token["kept"]:
                self._written.append(self._verbatim[int(token["kept"][1:-1])])
            else:
                self._written.append(_QUOTES.get(token["quotes"] or "", token[0]))
        read = MarkdownLines()
        read.add(*"".join(self._written).replace(_CELL, " ").replace(_ROW, "\n").split("\n"))
        return read.text()

    def _without_code(self, text: str) -> str:
        """Return a text with numbers in place of code and formulas."""
        text = _VERB.sub(lambda match: self._keep(f"`{match['code']}`"), text)
        parts: list[str] = []
        # What closes nothing from here on is not looked for again.
        absent: set[str] = set()
        position = 0
        while match := _OPENING.search(text, position):
            opening, name = match[0], match["name"]
            is_code = bool(name) and (name in _VERBATIM or _PROGRAM.match(text, match.end()) is not None)
            is_formula, is_unread = name in _FORMULAS, name in _UNREAD
            if (name and not (is_code or is_formula or is_unread)) or opening[0] == "%":
                parts.append(text[position : match.end()])
                position = match.end()
                continue
            closing = f"\\end{{{name}}}" if name else {"\\[": "\\]", "\\(": "\\)"}.get(opening, opening)
            end = -1 if closing in absent else text.find(closing, match.end())
            if end < 0:
                absent.add(closing)
            # A formula within a line ends in its paragraph.
            if end < 0 or (opening == "$" and text.find("\n\n", match.end(), end) >= 0):
                parts.append(text[position : match.end()])
                position = match.end()
                continue
            parts.append(text[position : match.start()])
            inner = text[match.end() : end]
            if is_code:
                head = _MINTED.match(inner)
                lines = MarkdownLines()
                lines.code(inner[head.end() if head else 0 :].split("\n"), (head["language"] or "") if head else "")
                parts.append(self._keep(f"\n\n{lines.text()}\n"))
            elif is_formula:
                parts.append(self._keep(f"\n\n$$\n{_LABEL.sub('', inner).strip()}\n$$\n\n"))
            elif not is_unread:
                parts.append(self._keep(f"{opening}{inner}{closing}"))
            position = end + len(closing)
        return "".join(parts) + text[position:]

    def _keep(self, text: str) -> str:
        self._verbatim.append(text)
        return f"\x02{len(self._verbatim) - 1}\x03"

    def _sign(self, sign: str, place: int) -> None:
        if sign == "~":
            self._written.append(" ")
        elif sign == "&":
            self._written.append(_CELL if self._environments and self._environments[-1][0] in _TABLES else "&")
        elif sign == "}" and place in self._due:
            what, start = self._due.pop(place)
            if what in _LEVELS:
                self._is_in_heading = False
                text = " ".join("".join(self._written[start:]).split())
                del self._written[start:]
                self.title = self.title or text
                self._written.append(f"\n\n{'#' * _LEVELS[what]} {text}\n\n")
            else:
                self._written.append({"footnote": ")", "caption": "\n\n"}.get(what, "`"))

    def _command(self, name: str, place: int) -> int:
        """Read a command behind its name; return the place behind it."""
        if name in ("begin", "end"):
            return self._environment(name, place)
        if name in _ACCENTS and (accented := self._accented(name, place)):
            return accented
        if name in _SIGNS or not name.isalpha():
            self._written.append(_SIGNS[name] if name in _SIGNS else self._escaped(name))
            return self._end_of_name(name, place)
        if name in ("href", "texorpdfstring"):
            start = _gap_end(self._text, place)
            return self._partners.get(start, place - 1) + 1
        if _SILENT.fullmatch(name):
            place = self._behind_arguments(place)
            # A line of its own is no end of a paragraph, and of two blanks one is left.
            before = self._written[-1][-1:] if self._written else "\n"
            return place + 1 if before in (" ", "\n") and self._text.startswith(before, place) else place
        if name == "item":
            option = _OPTION.match(self._text, _gap_end(self._text, place))
            mark = "- " if self._written and self._written[-1].endswith("\n") else "\n- "
            self._written.append(f"{mark}{option['text']}: " if option else mark)
            return _gap_end(self._text, option.end() if option else place)
        if name in _LEVELS and self._is_in_heading:
            return place
        if name in _LEVELS or name in _CODE or name in ("footnote", "caption"):
            option = _OPTION.match(self._text, _gap_end(self._text, place))
            start = _gap_end(self._text, option.end() if option else place)
            if start in self._partners:
                self._written.append({"footnote": " (", "caption": "\n\n"}.get(name, "`" if name in _CODE else ""))
                self._due[self._partners[start]] = name, len(self._written)
                self._is_in_heading = self._is_in_heading or name in _LEVELS
                return start + 1
            return place
        if name in self._names:
            self._written.append(self._names[name])
            return self._end_of_name(name, place)
        start = _gap_end(self._text, place)
        if name[0].isupper() and (self._text.startswith("{}", start) or not self._text.startswith("{", start)):
            # \LaTeX, \Coq: names.
            self._written.append(name)
            return self._end_of_name(name, place)
        if (file := _FILE.match(self._text, place)) and (not self._written or self._written[-1].endswith("\n")):
            return file.end()
        option = _OPTION.match(self._text, place)
        return option.end() if option else self._end_of_name(name, place)

    def _escaped(self, sign: str) -> str:
        if sign == "\\":
            return _ROW if self._environments and self._environments[-1][0] in _TABLES else "\n"
        return sign if sign in "&%_#${}" else "" if sign in "-/@*!'`^\"~=.()[]" else " "

    def _accented(self, accent: str, place: int) -> int | None:
        match = re.compile(r"\s?\{\\?(?P<in>[A-Za-z])\}|(?P<letter>[A-Za-z])|\\(?P<dotless>[ij])\b").match(
            self._text, place
        )
        if match is None or (accent.isalpha() and not match["in"]):
            return None
        letter = match["in"] or match["letter"] or match["dotless"]
        self._written.append(unicodedata.normalize("NFC", letter + _ACCENTS[accent]))
        return match.end()

    def _end_of_name(self, name: str, place: int) -> int:
        """Return the place behind what ends a command's name: blanks, or empty braces."""
        if self._text.startswith("{}", place):
            return place + 2
        return place if not name.isalpha() or "\n" in _SIGNS.get(name, "") else place + len(self._blank(place))

    def _blank(self, place: int) -> str:
        match = re.compile(r"[ \t]{0,100}").match(self._text, place)
        # "\LaTeX is": writers leave the blank out, and readers need it.
        if match and match[0] and self._written and self._written[-1][-1:].isalpha():
            self._written.append(" ")
        return match[0] if match else ""

    def _behind_arguments(self, place: int) -> int:
        for _ in range(_ARGUMENTS):
            start = _gap_end(self._text, place)
            if option := _OPTION.match(self._text, start):
                place = option.end()
            elif start in self._partners:
                place = self._partners[start] + 1
            elif start == place and (name := re.compile(r"\\[A-Za-z@]{1,40}(?=[\[{#])").match(self._text, place)):
                # \newcommand\name{…}
                place = name.end()
            else:
                break
        return place

    def _environment(self, which: str, place: int) -> int:
        match = _NAME.match(self._text, place)
        if match is None:
            return place
        name = match["name"]
        is_table = name in _TABLES
        if which == "begin":
            self._open_tables += is_table
            self._environments.append((name, len(self._written)))
            self._written.append("" if is_table else "\n\n")
            if is_table or name in ("minipage", "wrapfigure", "multicols"):
                return self._behind_arguments(match.end())
            end = match.end()
            while end in self._partners:
                end = self._partners[end] + 1
            option = _OPTION.match(self._text, end)
            # \begin{theorem}[Brouwer], \begin{figure}[ht]
            if option and len(option["text"]) > _LONGEST_PLACEMENT and "=" not in option["text"]:
                self._written.append(f"{option['text']}.")
            return option.end() if option else end
        if self._environments and self._environments[-1][0] == name:
            _, start = self._environments.pop()
            self._open_tables -= is_table
            if is_table and self._open_tables < _DEEPEST_TABLE:
                rows = "".join(self._written[start:]).split(_ROW)
                del self._written[start:]
                self._written.append(f"\n\n{table_text([row.split(_CELL) for row in rows])}")
        self._written.append("\n\n")
        return match.end()


_LABEL = re.compile(r"\\label\{[^{}\n]{0,200}\}")
_LONGEST_PLACEMENT = 4


def _gap_end(text: str, place: int) -> int:
    match = _GAP.match(text, place)
    return match.end() if match else place
