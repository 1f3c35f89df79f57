"""The prose of a document: the part in which concepts are looked for.

Code, formulas, addresses, metadata before the text, licences and tables of contents name no entities. They are replaced
by blanks, so that every position in the rest is the same as in the document.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Set
from itertools import pairwise

from pg_graphrag.text.languages import HAN, KANA
from pg_graphrag.text.letters import usual
from pg_graphrag.text.outline import HEADING_ATTRIBUTES

# Not a letter, not a blank, no end of a sentence: nothing is joined across it.
_BREAK = "\ufffc"

# Metadata of Markdown files (YAML, TOML), before everything else.
_FRONT_MATTER = re.compile(
    r"\s{0,9}(?P<mark>---|\+\+\+)[ \t]*\n(?=[\w-]{1,40}[ \t]*[:=])(?:(?!(?P=mark)[ \t]*$).*\n){1,100}?(?P=mark)[ \t]*$",
    re.MULTILINE,
)
_FENCE = re.compile(r"^[ \t]{0,12}(?:>[ \t]?){0,3}(?P<fence>`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
# `guess.trim()`: code within a sentence, but not a word that names the sentence's subject: `read_line`, `Vec<T>`.
_INLINE_CODE = re.compile(r"(?<!`)`(?P<code>[^`\n]{1,200})`(?!`)")
_WORD_OF_CODE = re.compile(
    r"[\w+#-]+(?:\(\)|<[\w, ]{1,20}>|\.(?:md|rs|py|js|ts|c|h|sql|sh|txt|toml|json|ya?ml|conf|cfg|html?))?"
)
_END_OF_WORD = re.compile(r"\(\)|<[\w, ]{1,20}>$")
_LATEX = re.compile(
    r"\$\$[^$]{1,4000}\$\$"
    r"|\\\[(?:[^\\]|\\(?!\])){1,4000}\\\]"
    r"|\\\((?:[^\\]|\\(?!\))){1,1000}\\\)"
    r"|\\begin\{(?P<environment>(?:equation|align|gather|multline|array|cases"
    r"|[bpv]?matrix)\*?)\}(?s:.){1,4000}?\\end\{(?P=environment)\}"
    # "$5 and $6" is money; Han may stand beside it.
    rf"|(?<![\\$])(?<![^\W{HAN}{KANA}])"
    r"\$(?![\s$]|\d[\d,.]*[\s–-])[^$\n]{0,300}[^\s$\\]\$(?![\d$])"
    # Commands outside of a formula that was marked: \frac{a}{b}, \mathcal{V}.
    r"|\\[A-Za-z]{2,30}(?:\{[^{}\n]{0,200}\}){1,3}|\\(?:cdot|times|leq?|geq?|infty|sum|prod|log|max|min|left|right"
    r"|quad|qquad|sim)\b"
)
_ADDRESS = re.compile(
    r"(?i:\b(?:https?|ftps?|git|ssh|s3|file|jdbc|redis|bolt|mongodb|postgres(?:ql)?|mailto|urn|doi"
    r"|data):/{0,3}[^\s<>\"'()（）「」、。，；]{2,2000}"
    r"|\bwww\.[^\s<>\"'()（）「」、。，；]{2,500})"
)
_MAIL = re.compile(
    r"\{[a-z, ]{1,60}\}@[\w.-]{3,80}|(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,5}"
)
_DOMAINS = ("com", "org", "net", "edu", "gov", "io", "jp", "cn", "de", "fr", "uk", "eu", "info", "aws", "dev")
_DOMAIN = re.compile(
    rf"(?<![\w./@-])(?:[a-z0-9-]{{1,40}}\.){{1,4}}(?:{'|'.join(_DOMAINS)})\b(?:/[^\s<>\"'()、。]{{0,500}})?"
)
# Paths of files: /etc/apt/sources.list, ~/.ssh/config.
_PATH = re.compile(r"(?<![\w/])~?/(?:[\w.+-]{1,80}/){1,12}[\w.+-]{0,80}")
# [@Laird2010; @doi:10.1/x] and @sec-results of Pandoc and Quarto; [@bob] and [@bob: hello] mention somebody.
_CITATION = re.compile(
    r"\[(?=[^\[\]\n]{0,80}(?<!\w)@[\w-]{1,80}(?:\d|:\w))[^\[\]\n]{0,2000}\](?!\()"
    r"|(?<!\w)@(?:sec|fig|tbl|eq|lst|tag|doi|pmc?id|arxiv)[-:][\w.:/-]{1,200}"
)
# [text](../page.html#part "Title"): before paths, which it may contain.
_LINK_TARGET = re.compile(r"(?<=\])\((?:[^()\s]|\([^()\s]{0,200}\)){1,500}(?:[ \t]+\"[^\"\n]{0,200}\")?\)")
# _macOS_ of Markdown; not __init__ or snake_case.
_EMPHASIS = re.compile(r"(?<!\w)_(?=[^\W_])(?P<text>[^_\n]{1,200})(?<!\s)_(?!\w)")
# "::: warning" of Pandoc and VitePress.
_CONTAINER = re.compile(r"^[ \t]{0,12}:{3,}[ \t]*(?:\{[^{}\n]{0,100}\}|[\w-]{0,40})", re.MULTILINE)
# Fingerprints of keys and hashes of versions: 6F0B F90F 43CD …, 1f6a4c0d2.
_DIGEST = re.compile(
    r"(?<!\w)[0-9A-Fa-f]{2,4}(?:[ \t:]{1,2}[0-9A-Fa-f]{2,4}){5,}(?!\w)"
    r"|(?<![\w.-])(?=[0-9a-f]{0,63}\d)(?=[0-9a-f]{0,63}[a-f])[0-9a-f]{7,64}(?![\w-])"
    # Identifiers (550e8400-e29b-…), keys and addresses in base 58 or 64, code points.
    r"|(?<![\w-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w-])"
    r"|(?<!\w)(?=\w{16})\d{0,60}(?:[A-Za-z]{1,60}\d{1,60}){4,60}[A-Za-z]{0,60}(?!\w)"
    r"|(?<!\w)U\+[0-9A-F]{4,6}(?:(?:-|–|\.\.)(?:U\+)?[0-9A-F]{4,6})?(?!\w)"
)
# [Feature #14230], PR #669: what an entry of a tracker is, and its number.
_TRACKED = re.compile(
    r"\[[A-Z]\w{1,20} #\d{1,7}\]|\b(?:Bug|Feature|Issue|PR|MR|Ticket|Fix(?:es|ed)?|Close[sd]?) #\d{1,7}\b"
)
# 2.6.0-preview2, 2018.01+bremen1, 1.9.2 preview1: the end of a version.
_END_OF_VERSION = re.compile(
    r"(?:(?<=\.\d)|(?<=\.\d\d))(?:[-+~]?[a-z]{1,10}\d{1,3}| (?:preview|rc|alpha|beta|pre)-?\d{1,3})(?!\w)"
)
# Entities and tags of HTML, wiki markup of language variants.
_MARKUP = re.compile(
    r"&(?:[a-z]{2,8}\d{0,2}|#\d{2,6}|#x[0-9A-Fa-f]{2,6});"
    r"|</?[A-Za-z][A-Za-z0-9]{0,15}(?:\s[^<>\n]{0,300}|\s[^<>\n=]{0,300}=[^<>\n]{0,2000})?/?>|<!--(?:[^-]|-(?!->)){0,2000}-->"
    r"|-\{(?=(?:[A-Za-z]+\|)?zh-)|\bzh-(?:hans|hant|cn|tw|hk|sg|mo|my):"
    # References to figures and formulas in MyST: :numref:`fig_graph`.
    r"|(?<!\w):(?:numref|(?:eq)?(?:ref|label)|cite[pt]?):`[^`\n]{1,200}`"
    # [text][label] and "[label]: address" of Markdown.
    r"|(?<=\])\[[^\[\]\n]{0,100}\]|^[ ]{0,3}\[[^\[\]\n]{1,100}\]:[ \t]+\S[^\n]{0,500}$",
    re.MULTILINE,
)
_KEYS = re.compile(r"\b(?:Ctrl|Control|Strg|Alt|Shift|Umschalt|Cmd|Meta)(?:[+-]\w{1,10}){1,3}")
# Options, variables and parameters of commands; packed or compiled files; headers in angle brackets.
_OPTION = re.compile(
    r"(?<![\w-])--[A-Za-z][\w-]{1,40}(?:(?:=|\[=)[^\s,、。]{1,80})?"
    r"|(?<![\w-])-[A-Za-z](?=[\s,、。)\]])(?:[ \t]+[A-Z_]{2,20}\b)?"
)
_VARIABLE = re.compile(r"[$%]\{?[A-Za-z_]\w{1,60}\}?|<[A-Za-z_][\w./@+ -]{0,80}>")
_SUFFIXES = (
    "deb rpm patch diff dsc tar tgz gz xz bz2 zip so o h hpp cpp png jpg jpeg gif svg log cfg bak orig lock tmp".split()
)
_PACKED = re.compile(rf"(?<![\w.-])[\w.+-]{{1,80}}\.(?:{'|'.join(_SUFFIXES)})(?:\.\w{{1,6}}){{0,2}}(?![\w.]*\w)")
# Heads and feet of manual pages, their headings, and links to neighbours of a page.
_FURNITURE = re.compile(
    # GREP(1)      用户命令      GREP(1)
    r"^[^\n]{0,160}[ \t]{2}[\w.+:-]{1,40}\(\d\w{0,4}\)[ \t]*$"
    r"|^[ \t#*=-]{0,8}(?:NAME|SYNOPSIS|DESCRIPTION|OPTIONS|ARGUMENTS|PARAMETERS|RETURN VALUES?|EXIT STATUS|ERRORS"
    r"|ENVIRONMENT|FILES|VERSIONS|ATTRIBUTES"
    r"|CONFORMING TO|STANDARDS|NOTES|BUGS|REPORTING BUGS|EXAMPLES?|CAVEATS|DIAGNOSTICS|HISTORY|SECURITY|SEE ALSO"
    r"|AUTHORS?|COPYRIGHT|COLOPHON|COMPATIBILITY|USAGE"
    # German, French, Spanish, Italian, Portuguese, Polish, Russian.
    r"|BEZEICHNUNG|ÜBERSICHT|BESCHREIBUNG|OPTIONEN|AUTOR(?:EN)?|SIEHE AUCH|ÜBERSETZUNG|FEHLER MELDEN|UMGEBUNG(?:SVARIABLEN)?"
    r"|DATEIEN|BEISPIELE?|RÜCKGABEWERT|ANMERKUNGEN|GESCHICHTE|KOMPATIBILITÄT"
    r"|NOM|ARGUMENTS|AUTEURS?|VOIR AUSSI|TRADUCTION|SIGNALER (?:DES|LES) (?:BOGUES|ANOMALIES)|SIGNALEMENT DE BOGUES"
    r"|ENVIRONNEMENT|FICHIERS|EXEMPLES?|BOGUES|VALEUR RENVOYÉE|ERREURS|HISTORIQUE|CONFORMITÉ|ATTRIBUTS|AVERTISSEMENTS?"
    r"|CODE DE (?:RETOUR|SORTIE)|DROITS D.AUTEUR"
    r"|NOMBRE|SINOPSIS|DESCRIPCIÓN|OPCIONES|AUTOR(?:ES)?|VÉASE TAMBIÉN|TRADUCCIÓN|INFORMAR DE ERRORES|ENTORNO|FICHEROS"
    r"|ARCHIVOS|EJEMPLOS?|ERRORES|FALLOS|NOTAS|VALOR DEVUELTO|HISTORIA|ESTADO DE SALIDA"
    r"|NOME|SINTASSI|DESCRIZIONE|OPZIONI|AUTORI|VEDERE ANCHE|TRADUZIONE|ESEMPI|SINOPSE|DESCRIÇÃO|OPÇÕES|VEJA TAMBÉM|TRADUÇÃO"
    r"|EXEMPLOS|NAZWA|SKŁADNIA|OPIS|OPCJE|AUTORZY?|ZOBACZ TAKŻE|TŁUMACZENIE|PRZYKŁADY"
    r"|ИМЯ|НАЗВАНИЕ|СИНТАКСИС|ОБЗОР|ОПИСАНИЕ|ПАРАМЕТРЫ|АРГУМЕНТЫ|АВТОРЫ?|СМ\. ТАКЖЕ|СМОТРИТЕ ТАКЖЕ|ПЕРЕВОД|ФАЙЛЫ|ПРИМЕРЫ?"
    r"|ОШИБКИ|СООБЩЕНИЯ ОБ ОШИБКАХ|ЗАМЕЧАНИЯ|ПЕРЕМЕННЫЕ ОКРУЖЕНИЯ|ОКРУЖЕНИЕ|ВОЗВРАЩАЕМОЕ ЗНАЧЕНИЕ|ИСТОРИЯ|АВТОРСКИЕ ПРАВА"
    r"|КОНФИГУРАЦИЯ|СТАНДАРТЫ|ВЕРСИИ|АТРИБУТЫ|ДЕФЕКТЫ|КОД ЗАВЕРШЕНИЯ"
    r"|名前|書式|説明|オプション|引数|返り値|戻り値|エラー|環境変数|関連ファイル|ファイル|注意|バグ|例|使用例|診断"
    r"|歴史|履歴|関連項目|著者|作者|著作権|準拠|翻訳"
    r"|名称|名字|概述|总览|總覽|描述|选项|選項|参数|參數|返回值|错误|環境|环境变量|文件|注意|漏洞|示例|历史|歷史"
    r"|参见|另见|参见|參見|作者|版权|遵循|中文版维护人"
    r"|Sommaire|Inhalt|Contents|Inhaltsverzeichnis|目次|目录|目錄)(?:[ \t]*[(（][^()（）\n]{1,20}[)）])?[ \t:：]*$"
    r"|^[^\w\n]{0,8}(?:Prev(?:ious)?|Next|Up|Home|Zurück|Weiter|Nach oben|Précédent|Suivant|前へ|次へ|戻る|上一页"
    r"|下一页|上一頁|下一頁|Download the ebook)"
    r"[^\w\n]{0,4}(?:[\dA-Z][\d.]{0,8})?[^\w\n]{0,4}$"
    r"|^[^\w\n]{0,8}(?:Prev|Next|Up|Zurück|Weiter|Précédent|Suivant|Anterior|Siguiente)(?:\d|[A-Z]\.\d)[^\n]{0,200}$"
    # 表2.7, 図 3, 表B-4: captions. B.4.13: a section of an appendix.
    r"|[表図圖图]\s?(?:[A-Z][.-])?\d{1,3}(?:[.-]\d{1,3}){0,3}(?!\d)"
    r"|(?<![A-Za-z0-9_.-])[A-Z]\.\d{1,3}(?:\.\d{1,3}){0,4}(?![A-Za-z0-9_-])",
    re.MULTILINE,
)
# "- Abbreviation: Ara; Original name: …": what a cell of a row holds, before the cell.
_FIELD = re.compile(r"(?:^[ \t]*(?:[-*•|][ \t]+)?|[;|][ \t]+)(?P<label>[^\W\d][^:;|.]{0,39}):(?=[ \t]|$)")
_ROWS_OF_A_FIELD = 3
# The line ends before and after a line with two cell borders.
_ROW_ENDS = re.compile(r"\n(?=[^\n|]{0,400}\|[^\n|]{0,400}\|)|(?<=\|)\n|(?<=\| )\n|(?<= \|)\n")
_NUMBER_CELL = re.compile(r"(?<!\S)(?:\d+|[0-9A-F]{2})(?!\S)")
_RULE = re.compile(r"^[ \t|:+=*_~#.\-─━│┃┌┐└┘├┤┬┴┼▼▲]{3,}$|[─━│┃┌┐└┘├┤┬┴┼═║╔╗╚╝▼▲]{1,}", re.MULTILINE)
_GUTENBERG_BEGIN = re.compile(r"^\s{0,9}\*{3}\s{0,3}START OF (?:THE|THIS) PROJECT GUTENBERG .{0,200}$", re.MULTILINE)
_GUTENBERG_END = re.compile(r"^\s{0,9}\*{3}\s{0,3}END OF (?:THE|THIS) PROJECT GUTENBERG ", re.MULTILINE)
_PARAGRAPH = re.compile(r"[^\n].*(?:\n[^\S\n]*\S.*)*")
_LICENCE = re.compile(
    r"permission is hereby granted|permission to use, copy|without (?:any )?warrant|as[ -]is['\"”’]? "
    r"|merchantability|fitness for a"
    r"|redistributions? (?:of|in)|redistribute it and/or|shall (?:not )?be (?:included|liable)|in no event"
    r"|liable for any"
    r"|all rights reserved|licensed under|terms of the (?:gnu|apache|mit|creative)|general public license"
    r"|free documentation license"
    r"|above copyright notice|derivative works|no warranty|incidental|consequential damages|sublicense",
    re.IGNORECASE,
)
_LICENCE_PHRASES = 2
# What a licence in full says over and over.
_OF_LICENCE = re.compile(
    r"this license|copyright holders?|covered work|modified versions?|under the terms of|cover texts?|invariant sections?"
    r"|publish or distribute|sublicense|diese[rs]? lizenz|lizenz(?:geber|nehmer|bedingung)|copyright-inhaber"
    r"|general public license|basierend\w* datenwerk|この(?:ライセンス|許諾書|利用許諾)|本ライセンス|著作権者|無保証|改変版"
    r"|本许可证|本許可證|著作权人|著作權人",
    re.IGNORECASE,
)
_LEAST_OF_LICENCE, _CHARACTERS_OF_LICENCE = 5, 500
# One of these is in every text with such words, in small letters; to look for them is quick.
_MARKS_OF_LICENCE = (
    *(
        "licens",
        "copyright",
        "covered work",
        "modified version",
        "under the terms of",
        "cover text",
        "invariant section",
    ),
    *(
        "publish or distribute",
        "lizenz",
        "datenwerk",
        "ライセンス",
        "許諾書",
        "利用許諾",
        "著作権者",
        "無保証",
        "改変版",
    ),
    *("本许可证", "本許可證", "著作权人", "著作權人"),
)
_HEADING = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)
# One of these is in every text with such phrases; to look for them is quick.
_LICENCE_WORDS = (
    *("arrant", "icens", "icenc", "opyright", "iable", "ights reserved", "edistribut", "erchantab", "ereby granted"),
    *("ARRANT", "ICENS", "OPYRIGHT", "IABLE", "IGHTS RESERVED"),
)
# "Chapter I … 12": a line of a table of contents. Several in a row are one.
_NUMBERED_LINE = re.compile(r"[^\n]*[^\W\d][^\n]*?[ .…·\t]{1,60}(?P<page>[0-9]{1,4})(?:-[0-9]{1,4})?")
_LONGEST_LINE = 100
_LINES_OF_CONTENTS = 4
_WORD = re.compile(r"[^\W\d_]\w*(?:[.:/-]\w+)*")
# fetchAB of "function fetchAB(", of an example's own making; a class is what a text may be about.
_DEFINED = re.compile(r"\b(?:function\*?|const|let|var|def|fn)\s+([a-z_]\w{1,80})(?=\s*[(=<:])")
_CODE_NAME = re.compile(r"[A-Za-z_]\w{2,80}")
_PROMPT = re.compile(
    r"[ \t]*(?:\$|%|>>>|[\w@~:-]{1,60}[=#>$][#>]?)[ \t]+[^\s\d]|[ \t]*#(?=[a-z]|[ \t]+[a-z][^\n]*(?:/| -))"
)
_ASSIGNMENT = re.compile(r"[ \t]*(?:export[ \t]+)?[A-Za-z_][\w.-]{0,60}=\S*[ \t]*")
_STATEMENT_END = re.compile(r"(?:[;{}]|\);?|\\|=>|->)[ \t]*$")
_CODE_SIGN = re.compile(r"[{}\[\]=;<>\\&*@^]|\w\(|\)\.|::|->|=>|--\w|\"[,:]|':")
_CAPITALS = 4
_NUMBERS_OF_A_ROW = 3
_CAPITAL_WORD = re.compile(r"[^\W\d_]{2,}")
_WITHOUT_CASE = re.compile("[\u0590-\u0fff\u2e80-\ud7ff\uf900-\ufdff]")

# Everything that is no prose, in this order, each with strings of which the text must have one for the pattern to match.
_PATTERNS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (_CITATION, ("@",)),
    (_LINK_TARGET, ("](",)),
    (HEADING_ATTRIBUTES, ("{#", "{.")),
    (_CONTAINER, (":::",)),
    (_DIGEST, ()),
    (_TRACKED, (" #",)),
    (_END_OF_VERSION, (".",)),
    (_LATEX, ("$", "\\")),
    (_ADDRESS, (":", "www.", "WWW.", "Www.")),
    (_MAIL, ("@",)),
    (_DOMAIN, tuple(f".{domain}" for domain in _DOMAINS)),
    (_PATH, ("/",)),
    (_MARKUP, ("&", "<", "{", "zh-", "][", "]:", ":`")),
    (_KEYS, ("Ctrl", "Control", "Strg", "Alt", "Shift", "Umschalt", "Cmd", "Meta")),
    (_OPTION, ("--", " -", "\n-", "[-", "(-", "|-", "\t-")),
    (_VARIABLE, ("$", "%", "<")),
    (_PACKED, tuple(f".{suffix}" for suffix in _SUFFIXES)),
    (_FURNITURE, ()),
    (_RULE, ()),
)


def prose(content: str) -> str:
    """Return `content` with blanks in place of everything that is no prose; its length is the same.

    Identifiers in code stay if the prose of the same document names them too. Lines all in capitals get small letters,
    because their capitals say nothing. Letters, digits and hyphens are normalised.
    """
    masked = content = usual(content)
    code = list(_fenced(content))
    defined = {name for start, end in code for name in _DEFINED.findall(content, start, end)}
    code += _inline_code(content, defined) if "`" in content else []
    masked = _blank(masked, [*_front_matter(content), *_contents(content), *_licences(content), *code])
    for pattern, marks in _PATTERNS:
        if not marks or any(mark in masked for mark in marks):
            masked = _blank(masked, [match.span() for match in pattern.finditer(masked)])
    masked = _blank(masked, list(_number_rows(masked)))
    masked = _blank(masked, _fields(masked))
    lines = list(_code_lines(masked))
    code += lines
    masked = _blank(masked, lines)
    if code:
        in_code = {name for start, end in code for name in _CODE_NAME.findall(content, start, end)}
        named = {name for name in in_code.intersection(_CODE_NAME.findall(masked)) if _is_identifier(name)} - defined
        masked = _restore(content, masked, code, named)
    if "_" in masked:
        masked = _EMPHASIS.sub(r" \g<text> ", masked)
    return _parted_rows(_small_letters(masked))


def _parted_rows(text: str) -> str:
    """Put a break in place of the line ends around rows of tables: they look like lines that an editor wrapped."""
    if " | " not in text:
        return text
    return _ROW_ENDS.sub(_BREAK, text)


def _blank(text: str, spans: list[tuple[int, int]]) -> str:
    """Replace spans by blanks between two breaks."""
    if not spans:
        return text
    parts: list[str] = []
    position = 0
    for start, end in sorted(spans):
        start = max(start, position)
        if start >= end:
            continue
        parts.append(text[position:start])
        parts.append("\n".join(_blanks(len(line)) for line in text[start:end].split("\n")))
        position = end
    parts.append(text[position:])
    return "".join(parts)


def _blanks(length: int) -> str:
    return _BREAK * length if length < 3 else _BREAK + " " * (length - 2) + _BREAK


def _front_matter(content: str) -> Iterator[tuple[int, int]]:
    match = _FRONT_MATTER.match(content)
    if match:
        yield match.span()


def _fenced(content: str) -> Iterator[tuple[int, int]]:
    """Yield the code between fences of Markdown, fences included; one that is not closed goes to the end."""
    opening: re.Match[str] | None = None
    for match in _FENCE.finditer(content):
        if opening is None:
            opening = match
        elif match["fence"].startswith(opening["fence"]):
            yield opening.start(), match.end()
            opening = None
    if opening is not None:
        yield opening.start(), len(content)


def _inline_code(content: str, defined: Set[str]) -> Iterator[tuple[int, int]]:
    """Yield code between backticks, and the brackets after a word there; words that examples define are code."""
    for match in _INLINE_CODE.finditer(content):
        if not _WORD_OF_CODE.fullmatch(match["code"]):
            if match["code"].isascii():
                yield match.span()
        elif (name := _CODE_NAME.match(match["code"])) and name[0] in defined:
            yield match.span()
        elif brackets := _END_OF_WORD.search(content, match.start(), match.end("code")):
            yield brackets.span()


def _licences(content: str) -> Iterator[tuple[int, int]]:
    """Yield what surrounds a book of Project Gutenberg, and paragraphs with several phrases of licences."""
    if "PROJECT GUTENBERG" in content:
        begin, end = _GUTENBERG_BEGIN.search(content), _GUTENBERG_END.search(content)
        if begin:
            yield 0, begin.end()
        if end:
            yield end.start(), len(content)
    if any(word in content for word in _LICENCE_WORDS):
        for match in _PARAGRAPH.finditer(content):
            if len({phrase.lower() for phrase in _LICENCE.findall(match[0])}) >= _LICENCE_PHRASES:
                yield match.span()
    small = content.lower()
    if not any(mark in small for mark in _MARKS_OF_LICENCE):
        return
    phrases = [match.start() for match in _OF_LICENCE.finditer(content)]
    if len(phrases) >= _LEAST_OF_LICENCE:
        cuts = [0, *(match.start() for match in _HEADING.finditer(content)), len(content)]
        for start, stop in pairwise(cuts):
            count = bisect_left(phrases, stop) - bisect_left(phrases, start)
            if count >= _LEAST_OF_LICENCE and count * _CHARACTERS_OF_LICENCE >= stop - start:
                yield start, stop


def _contents(content: str) -> Iterator[tuple[int, int]]:
    """Yield tables of contents: lines in a row that end with numbers, none less than the one before."""
    run: list[tuple[int, int, int]] = []
    position = 0
    for line in content.split("\n"):
        start, position = position, position + len(line) + 1
        stripped = line.rstrip()
        if not stripped:
            continue
        match = (
            _NUMBERED_LINE.fullmatch(stripped) if stripped[-1].isdecimal() and len(stripped) <= _LONGEST_LINE else None
        )
        if match is None or (run and int(match["page"]) < run[-1][2]):
            yield from _span(run)
            run = []
        if match is not None:
            run.append((start, start + len(stripped), int(match["page"])))
    yield from _span(run)


def _span(run: list[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    if len(run) >= _LINES_OF_CONTENTS:
        yield run[0][0], run[-1][1]


def _fields(text: str) -> list[tuple[int, int]]:
    """Return the labels of fields that several rows of the text have: heads of columns, not what a row says.

    A row has two fields or more: "Bob: Hello" is what Bob says.
    """
    labels: list[tuple[str, tuple[int, int]]] = []
    position = 0
    for line in text.split("\n"):
        if ":" in line and (";" in line or "|" in line):
            matches = list(_FIELD.finditer(line))
            if len(matches) > 1:
                labels += [
                    (match["label"], (position + match.start("label"), position + match.end())) for match in matches
                ]
        position += len(line) + 1
    counts = Counter(label for label, _ in labels)
    return [span for label, span in labels if counts[label] >= _ROWS_OF_A_FIELD]


def _number_rows(text: str) -> Iterator[tuple[int, int]]:
    """Yield rows of tables that are mostly numbers: "346 230 E6 æ LATIN SMALL LETTER AE"."""
    position = 0
    for line in text.split("\n"):
        cells = _NUMBER_CELL.findall(line[:400])
        if len(cells) >= _NUMBERS_OF_A_ROW and 3 * len(cells) >= len(line[:400].split()):
            yield position, position + len(line)
        position += len(line) + 1


def _code_lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield lines that are code by their signs: a prompt, or many signs and few words."""
    position = 0
    for line in text.split("\n"):
        end = position + len(line)
        if line and not line.isspace() and _is_code(line):
            yield position, end
        position = end + 1


def _is_code(line: str) -> bool:
    line = line[:400]
    if _PROMPT.match(line) or _ASSIGNMENT.fullmatch(line):
        return True
    signs = len(_CODE_SIGN.findall(line))
    if not signs:
        return False
    if line.lstrip().startswith(("|", "* ", "- ", "+ ", "> ", "#")) and not _STATEMENT_END.search(line):
        # Tables, lists, quotations and headings of Markdown.
        return False
    words = len(_WORD.findall(line))
    return signs >= 2 and (signs >= words or (_STATEMENT_END.search(line) is not None and 2 * signs >= words))


def _is_identifier(name: str) -> bool:
    return "_" in name or any(a.islower() and b.isupper() for a, b in pairwise(name))


def _restore(content: str, masked: str, code: list[tuple[int, int]], named: set[str]) -> str:
    """Put identifiers that are `named` in prose back where they stand in `code`."""
    if not named:
        return masked
    letters = list(masked)
    for start, end in code:
        for match in _CODE_NAME.finditer(content, start, end):
            if match[0] in named:
                letters[match.start() : match.end()] = match[0]
                # "onMounted, onUnmounted" are two names, also where what stood between them is blank.
                for beside in (match.start() - 1, match.end()):
                    if start <= beside < end and letters[beside] == " ":
                        letters[beside] = _BREAK
    return "".join(letters)


def _small_letters(text: str) -> str:
    """Write lines in capitals, of several words, in small letters."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        # Han and kana have no capitals; "LLM" among them is a name.
        # A German line in capitals has its ß small.
        if (
            line.replace("ß", "").isupper()
            and not _WITHOUT_CASE.search(line)
            and len(_CAPITAL_WORD.findall(line)) >= _CAPITALS
        ):
            small = line.lower()
            if len(small) == len(line):
                lines[number] = small
    return "\n".join(lines)
