"""Rich Text: what a person sees of it comes in, whatever program wrote it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("lxml")

from pg_graphrag.beside.readers import ReadWarning, read

from tests.unit.files import the_document, the_error, write

WORD = r"""{\rtf1\ansi\ansicpg1252\uc1\deff0{\fonttbl{\f0\froman\fcharset0{\*\panose 02020603050405020304}Times{\*\falt Tms};}
{\f1\fmodern\fcharset0 Courier New;}{\f2\froman\fcharset204 Times New Roman Cyr;}{\f3\froman\fcharset128 MS Mincho;}
{\f4\froman\fcharset2 Symbol;}}
{\colortbl;\red0\green0\blue0;}{\stylesheet{\ql Normal;}{\s1\outlinelevel0 \'dcberschrift 1;}{\s2\sbasedon1 Mine;}{\s9 Title;}}
{\info{\title Looms}{\author Ada Lovelace}{\creatim\yr2024\mo5\dy6\hr7\min8}{\*\company Acme}}
{\header\pard Running head\par}
\pard\s9 On looms\par and weavers\par
\pard\s1 First part\par
\pard\plain The loom \u8211?\'20wove {\b fast}\emdash so they said{\footnote\pard\plain{\chftn} Not all did.}.\par
{\listtext\pard\plain\f4\'b7\tab}\pard\ilvl0 warp\par{\listtext\pard\plain\f4\'b7\tab}\pard\ilvl1 weft\par\pard
\trowd\cellx100\cellx200\pard\intbl Ship\cell Master\cell\row
\trowd\cellx100\cellx200\pard\intbl Terra\par Nova\cell Evans\cell\row
\pard {\f2 \'cc\'ee\'f1\'ea\'e2\'e0} {\f3 \'93\'fa\'96\'7b\'83e\'83X\'83g} {\f4 a}\par
{\f1 print(1)\par   print(2)\par}
\pard Seen{\*\atnauthor Grace}\chatn{\*\annotation\pard\plain Check {\i this}.}{\deleted gone}{\v secret}\par
{\*\shppict{\pict{\*\picprop{\sp{\sn wzDescription}{\sv A loom}}}\pngblip 8950}}{\nonshppict{\pict\wmetafile8 0100}}\par
{\pict\bin4 {}\'a}\par
{\shp{\*\shpinst{\shptxt \pard In the box\par}}{\shprslt\pard In the box\par}}\par
{\field{\*\fldinst TOC \\o "1-3"}{\fldrslt First part 1\par}}\par
{\field{\*\fldinst HYPERLINK "http://example.org"}{\fldrslt the link}} \u-10179?\u-8704?\par
\pard\s2 Second part\par}"""
READ = """# On looms and weavers

# First part

The loom – wove fast—so they said.

Note: Not all did.

- warp
  - weft

| Ship | Master |
| --- | --- |
| Terra Nova | Evans |

Москва 日本テスト α

```
print(1)
  print(2)
```

Seen

Comment (Grace): Check this.

A loom

In the box

the link \U0001f600

# Second part
"""


def test_rich_text_has_headings_lists_tables_code_notes_comments_and_boxes(tmp_path: Path) -> None:
    document, *warnings = read(write(tmp_path / "a.rtf", WORD.encode()), "a.rtf")
    assert document.content == READ
    assert (document.title, document.metadata["author"]) == ("Looms", "Ada Lovelace")
    assert document.valid_from == datetime(2024, 5, 6, 7, 8, tzinfo=UTC)
    assert [warning.reason for warning in warnings if isinstance(warning, ReadWarning)] == [
        "left out: 6 × hidden character, 1 × picture without a description"
    ]


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (rb"\ansicpg1250{\fonttbl{\f0\fcharset238 Arial;}}\f0", "Příliš žluťoučký kůň"),
        (rb"\ansicpg1251\f0", "Широкая электрификация"),
        (rb"\ansicpg932{\fonttbl\f0\fnil\fcharset128 Osaka;\f1\fnil Foo;}\f0", "能表ソース"),
        (rb"\ansicpg936", "汉字编码"),
        (rb"\mac", "Résumé naïve"),
        (rb"\ansicpg1252{\fonttbl{\f0\fcharset0 Arial;}}\f0", "Широкая электрификация южных губерний даст толчок подъёму."),
    ],
)  # fmt: skip
def test_bytes_are_of_the_code_page_that_font_or_file_name_or_that_they_look_like(
    tmp_path: Path, head: bytes, text: str
) -> None:
    names = {b"1250": "cp1250", b"1251": "cp1251", b"cpg932": "cp932", b"936": "gbk", b"mac": "mac-roman"}
    encoding = next((codec for name, codec in names.items() if name in head), "cp1251")
    body = "".join(
        f"\\'{byte:02x}" if byte > 127 else chr(byte).replace("\\", "\\\\") for byte in text.encode(encoding)
    )
    escaped = b"{\\rtf1\\ansi" + head + b" " + body.encode() + b"\\\n}"
    raw = b"{\\rtf1\\ansi" + head + b" " + (text.encode(encoding) if encoding != "cp932" else body.encode()) + b"\\par}"
    for data in (escaped, raw):
        assert the_document(write(tmp_path / "a.rtf", data)).content == text + "\n"


def test_what_is_no_rich_text_or_is_cut_or_empty_is_said(tmp_path: Path) -> None:
    assert "does not begin as Rich Text" in the_error(write(tmp_path / "a.rtf", "Dear all"))
    assert "holds no text" in the_error(write(tmp_path / "b.rtf", r"{\rtf1 {\pict 00}\par}"))
    assert "groups within each other" in the_error(write(tmp_path / "c.rtf", "{\\rtf1 " + "{" * 20_000))
    document, warning = read(write(tmp_path / "d.rtf", r"{\rtf1\pard The loom {\b wove"), "d.rtf")
    assert document.content == "The loom wove\n"
    assert "ends amid the text" in warning.reason


def test_rich_text_under_the_name_of_old_word_is_read(tmp_path: Path) -> None:
    assert the_document(write(tmp_path / "a.doc", r"{\rtf1 The loom.\par}")).content == "The loom.\n"


def test_a_letter_all_in_the_font_of_a_typewriter_is_no_code(tmp_path: Path) -> None:
    data = rb"{\rtf1\deff0{\fonttbl{\f0 Courier New;}}The loom wove.\par \bullet\tab Warp\par}"
    assert the_document(write(tmp_path / "a.rtf", data)).content == "The loom wove.\n\n- Warp\n"


def _field(kind: str, form: str, result: str = "") -> str:
    return rf"{{\field{{\*\fldinst {{ {kind} }}{{\*\formfield{{{form}{{\*\ffname Name}}}}}}}}{{\fldrslt {result}}}}}"


_LIST = r"{\*\ffl red}{\*\ffl gr\'fcn}{\*\ffl blue}"


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (_field("FORMCHECKBOX", r"\fftype1\ffres1\ffdefres0"), "☒"),
        (_field("FORMCHECKBOX", r"\fftype1\ffres0\ffdefres1"), "☐"),
        (_field("FORMCHECKBOX", r"\fftype1\ffres25\ffhps20\ffdefres1"), "☒"),
        (_field("FORMCHECKBOX", r"\fftype1\ffhps20"), "☐"),
        (_field("FORMDROPDOWN", r"\fftype2\ffres1\fftypetxt0" + _LIST), "grün"),
        (_field("FORMDROPDOWN", r"\fftype2\ffres25\ffdefres2" + _LIST), "blue"),
        (_field("FORMDROPDOWN", r"\fftype2\ffres1" + _LIST, r"gr\'fcn"), "grün"),
        (_field("FORMDROPDOWN", r"\fftype2\ffres9" + _LIST), ""),
        (_field("FORMTEXT", r"\fftype0{\*\ffdeftext none}", "Ada"), "Ada"),
    ],
)
def test_fields_of_forms_say_their_state(tmp_path: Path, field: str, text: str) -> None:
    content = the_document(write(tmp_path / "a.rtf", rf"{{\rtf1\ansi\ansicpg1252 Penicillin: {field} so\par}}")).content
    assert content.split() == f"Penicillin: {text} so".split()
