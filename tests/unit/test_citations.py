"""Citations of an answer: what is not in the context goes, however the answer comes in pieces."""

import random
import time

import pytest
from pg_graphrag.search.contexts.citations import Citations, cited_documents
from pg_graphrag.text.marks import neutral, without_citations

LONG = f"[{', '.join('123' * 12)}]"
CASES = {
    "All is well [1]. More [2][3].": ("All is well [1]. More [2][3].", [1, 2, 3], 0),
    "Nothing such [9].": ("Nothing such.", [], 1),
    "Two of them [1, 9] here": ("Two of them [1] here", [1], 1),
    "A range [1-3] and [2–9]": ("A range [1][2][3] and [2]", [1, 2, 3, 2], 1),
    "Footnotes [^2], [^1^] and [ 3 ; 12 ]": ("Footnotes [2], [1] and [3]", [2, 1, 3], 1),
    "Twice [[1]], with labels [Source 2] [citation:3] [doc 7]": ("Twice [1], with labels [2] [3]", [1, 2, 3], 1),
    "日本語です【1】。無い【8】。": ("日本語です[1]。無い。", [1], 1),
    "工具【1†a_file_of_a_rather_long_name_and_its_extension_too.markdown】与【2†L3-L9】，【4:0†source】。": (
        "工具[1]与[2]，。",
        [1, 2],
        1,
    ),
    "［2］から。本文です［2］。": ("［2］から。本文です[2]。", [2], 0),
    "Code `a[9]` stays, prose [9] does not": ("Code `a[9]` stays, prose does not", [], 1),
    "```sql\nSELECT a[7];\n```\nDone [7]": ("```sql\nSELECT a[7];\n```\nDone", [], 1),
    "An odd ` tick\nand [9] after it": ("An odd ` tick\nand after it", [], 1),
    # Tags, numbers above the line, labels of one letter.
    "泵在运行。<sup>1</sup>PostgreSQL 使用预写日志。²WAL": ("泵在运行。[1]PostgreSQL 使用预写日志。[2]WAL", [1, 2], 0),
    "It is so.<sup>1</sup> And thus<sup>[2, 3]</sup>, too <cite>1</cite>.": (
        "It is so.[1] And thus[2][3], too [1].",
        [1, 2, 3, 1],
        0,
    ),
    "So <ref>2</ref><source>3</source>, <CITE> 1 </CITE> and <cite>9</cite>.": ("So [2][3], [1] and.", [2, 3, 1], 1),
    "It is so.¹ Or “so.”²³ And so [S1; S2] [D3].": (
        "It is so.[1] Or “so.”[2][3] And so [1][2] [3].",
        [1, 2, 3, 1, 2, 3],
        0,
    ),
    "It was **Paris**<sup>1</sup>, in 1889<sup>1</sup>, the capital <sup>2</sup>.": (
        "It was **Paris**[1], in 1889[1], the capital [2].",
        [1, 1, 2],
        0,
    ),
    "A *river* (Seine)<sup>3</sup> rose 9%<sup>1</sup>.": ("A *river* (Seine)[3] rose 9%[1].", [3, 1], 0),
    "So it is.¹,² And so.¹ ² It is so.¹, but 3.": (
        "So it is.[1][2] And so.[1][2] It is so.[1], but 3.",
        [1, 2, 1, 2, 1],
        0,
    ),
    "Fell 9 meters per second<sup>2</sup> here [1], a parsec<sup>2</sup> and so.²": (
        "Fell 9 meters per second<sup>2</sup> here [1], a parsec<sup>2</sup> and so.²",
        [1],
        0,
    ),
    "Has 357 kilometers<sup>2</sup>, Iron<sup>3</sup>+, heavy <sup>3</sup>He, 1500 Kilometer <sup>2</sup>. Log<sup>2</sup>": (
        "Has 357 kilometers<sup>2</sup>, Iron<sup>3</sup>+, heavy <sup>3</sup>He, 1500 Kilometer <sup>2</sup>. Log<sup>2</sup>",
        [],
        0,
    ),
    "A [1] and so<sup>[2]</sup>, then<sup>[9]</sup>.": ("A [1] and so<sup>[2]</sup>, then<sup></sup>.", [1, 2], 1),
    "The top of the charts (#1). Fixed the crash (#2).": ("The top of the charts (#1). Fixed the crash (#2).", [], 0),
    "It was fixed (1). It closes (2).": ("It was fixed [1]. It closes [2].", [1, 2], 0),
    "10 m<sup>2</sup>, 5 inch<sup>2</sup>, 10<sup>3</sup>, x<sup>2</sup>, the 1<sup>st</sup>, n<sup>-1</sup>": (
        "10 m<sup>2</sup>, 5 inch<sup>2</sup>, 10<sup>3</sup>, x<sup>2</sup>, the 1<sup>st</sup>, n<sup>-1</sup>",
        [],
        0,
    ),
    "10 m², R², 5 cm³ and word². a < 1 <b>2</b> <sup>": ("10 m², R², 5 cm³ and word². a < 1 <b>2</b> <sup>", [], 0),
    "Closed by issue (#1). Model S1 (S1). Size [S], [SD1], [s1], [S1a].": (
        "Closed by issue (#1). Model S1 (S1). Size [S], [SD1], [s1], [S1a].",
        [],
        0,
    ),
    "[link](x) [] [a1] [1a] [[x] [": ("[link](x) [] [a1] [1a] [[x] [", [], 0),
    "  padded [1]  \n": ("padded [1]", [1], 0),
    "Big [99999999] and [123456789012] numbers": ("Big and [123456789012] numbers", [], 1),
    f"Many {LONG} too": (f"Many {LONG} too", [], 0),
    "Line\n[9]\nline": ("Line\n\nline", [], 1),
    "Values in [0, 1], a log of [2024-01-05], [00]": ("Values in [0, 1], a log of [2024-01-05], [00]", [], 0),
    # Headings, years and notes in lenticular brackets.
    "【1】はじめに\n本文です【1】。\n\n## 【2】概要\n【9】まとめ": (
        "【1】はじめに\n本文です[1]。\n\n## 【2】概要\n【9】まとめ",
        [1],
        0,
    ),
    "【重要】【1】【2024】【注1】【お知らせ】": ("【重要】[1]【2024】【注1】【お知らせ】", [1], 0),
    "【2】\n本文\n【1】【3】\n\n【2】\n終": ("【2】\n本文\n[1][3]\n\n【2】\n終", [1, 3], 0),
    "【1】によると晴れ。\n【2】指出下雨。": ("[1]によると晴れ。\n[2]指出下雨。", [1, 2], 0),
    "1815【1】": ("1815[1]", [1], 0),
    # Round brackets, where nothing else can be meant.
    "She was born in London (1). He came later (2, 3).\nThen (9).": (
        "She was born in London [1]. He came later [2][3].\nThen (9).",
        [1, 2, 3],
        0,
    ),
    "ロンドンで生まれた（1）。式（2）。": ("ロンドンで生まれた[1]。式（2）。", [1], 0),
    "Two things: (1) she wrote and (2) he read. It is known (1).": (
        "Two things: (1) she wrote and (2) he read. It is known (1).",
        [],
        0,
    ),
    "As in equation (1). See ls (1). It calls f(2).": ("As in equation (1). See ls (1). It calls f(2).", [], 0),
    "It is so [1], as (2) says (2).": ("It is so [1], as (2) says (2).", [1], 0),
    "(an aside) and (": ("(an aside) and (", [], 0),
    "": ("", [], 0),
    # However models cite.
    "As [1 and 2], [1, 2, and 3], [1 & 2], [1 to 3], [1 und 2], [1と2]": (
        "As [1][2], [1][2][3], [1][2], [1][2][3], [1][2], [1][2]",
        [1, 2, 1, 2, 3, 1, 2, 1, 2, 3, 1, 2, 1, 2],
        0,
    ),
    "As [Document 1, Document 2], [1: Estate], [1: Estate; 2: Ada], [Document 1: Estate, Document 2: Ada]": (
        "As [1][2], [1], [1][2], [1][2]",
        [1, 2, 1, 1, 2, 1, 2],
        0,
    ),
    "As [文書1], [文档1]、[文献1]、[文書番号 1]、[来源：1]、[第1]、[문서 1], [참고문헌 2]": (
        "As [1], [1]、[1]、[1]、[1]、[1]、[1], [2]",
        [1, 1, 1, 1, 1, 1, 1, 2],
        0,
    ),
    "As [Dokument 1], [Quelle: 2], [fuente 1], [źródło 2], [источник 1], [المصدر 2], [nguồn 1], [tài liệu 2]": (
        "As [1], [2], [1], [2], [1], [2], [1], [2]",
        [1, 2, 1, 2, 1, 2, 1, 2],
        0,
    ),
    r"As \[1\], \\[2\\], \[3], [#1], [№ 2], [doc_1], [ref:2], [S. 1]": (
        "As [1], [2], [3], [1], [2], [1], [2], [S. 1]",
        [1, 2, 3, 1, 2, 1, 2],
        0,
    ),
    "As [1, p. 3], [1, pp. 3, 2], [2, S. 9], [1, p. 3; 2, § 1], [1, Estate], [1 (Estate)], [1. Estate]": (
        "As [1], [1], [2], [1][2], [1], [1], [1]",
        [1, 1, 2, 1, 2, 1, 1, 1],
        0,
    ),
    "As [1 u. 2], [1 sowie 2], [ID 1], [footnote 2], [réf. 1], [根拠: 文書1], [1.]": (
        "As [1][2], [1][2], [1], [2], [1], [1], [1]",
        [1, 2, 1, 2, 1, 2, 1, 1, 1],
        0,
    ),
    "As [１], [١], [①], 〔2〕, [\u200b1\u2060] and [9: Estate]": ("As [1], [1], [1], [2], [1] and", [1, 1, 1, 2, 1], 1),
    "As (Document 1), （文档1、文档2）, not (Document 9)": ("As [1], [1][2], not (Document 9)", [1, 1, 2], 0),
    "[1](x) [1 Estate] [May 5] [Table 2] [12:30] [2/1] [1/9] [1/1] [1.5]": (
        "[1](x) [1 Estate] [May 5] [Table 2] [12:30] [2/1] [1/9] [1/1] [1.5]",
        [1],
        0,
    ),
    "As [row 1], [Rows 1, 2], [Zeile 3], [1/2], [1 / 2 / 3], but ⟦1/2⟧ is of a log": (
        "As [1], [1][2], [3], [1][2], [1][2][3], but [1/2] is of a log",
        [1, 1, 2, 3, 1, 2, 1, 2, 3],
        0,
    ),
    # Code.
    "~~~\nrows[7]\nx [1]\n~~~\nAll [1] [9]": ("~~~\nrows[7]\nx [1]\n~~~\nAll [1]", [1], 1),
    "````\n```\nx [7]\n```\n````\nB [9]": ("````\n```\nx [7]\n```\n````\nB", [], 1),
    "So:\n\n    rows[7]\n\n    x [1]\n\nAll [1]": ("So:\n\n    rows[7]\n\n    x [1]\n\nAll [1]", [1], 0),
    "\tx [7]\n\nB [1]": ("x [7]\n\nB [1]", [1], 0),
    "1. item\n\n    more text [1] [9]\n": ("1. item\n\n    more text [1]", [1], 1),
    "Use rows[7], self.rows[7], rows[i][7] and rows[1], as [1].": (
        "Use rows[7], self.rows[7], rows[i][7] and rows[1], as [1].",
        [1],
        0,
    ),
    "Set rows[1] = 5, a[1].name, b[2](x)": ("Set rows[1] = 5, a[1].name, b[2](x)", [], 0),
    "Built in 1900[1] by Ada[2]. In 1901[9] Bob[9].": ("Built in 1900[1] by Ada[2]. In 1901 Bob.", [1, 2], 2),
    # What a document was given with: what cites there goes, the rest stands as it stood.
    "`rows⟦7⟧`, rows⟦1⟧ and ⟦2⟧ of a text": ("`rows[7]`, rows[1] and of a text", [], 0),
    "“A ⟦2⟧ budget ⟦Document 3⟧” [1]. Grew ⟦10%⟧, ⟦02⟧. ⟦Text:⟧ ⟦documents-a⟧ ⟦e⟧ ⟦": (
        "“A budget” [1]. Grew [10%], [02]. Text: <documents-a> ⟦e⟧ ⟦",
        [1],
        0,
    ),
    # Numbers in round brackets that are of no documents.
    "Prices rose (from 1 to 3). (No. 1), (number 3), (see 2 and 3), (Text 1), (nr 2), (vgl. 1)": (
        "Prices rose (from 1 to 3). (No. 1), (number 3), (see 2 and 3), (Text 1), (nr 2), (vgl. 1)",
        [],
        0,
    ),
    "So (see document 2), (Ref. 1), (Quelle 3)（参考文献1）": ("So [2], [1], [3][1]", [2, 1, 3, 1], 0),
    "A [1](#ref1).": ("A [1](#ref1).", [1], 0),
    "A fact (2: as [1] says) of (3. [9])": ("A fact (2: as [1] says) of (3.)", [1], 1),
    "【1】[Document 1, Document 2]。": ("[1][1][2]。", [1, 1, 2], 0),
    # Blanks between numbers, where each is one of the context; files and other words for them.
    "So [1 2], [1 2 3], [#1 #3], 【1 2】, vectors [3 1], [1 1], [1 9], [1 2; 3 4], [0 1].": (
        "So [1][2], [1][2][3], [1][3], [1][2], vectors [3 1], [1 1], [1 9], [1 2; 3 4], [0 1].",
        [1, 2, 1, 2, 3, 1, 3, 1, 2],
        0,
    ),
    "So [file 1], [files 1 and 3], [Datei 2], [fichier 1], [ファイル1], [web:1], [laut 2], not [Article 1] (file 1).": (
        "So [1], [1][3], [2], [1], [1], [1], [2], not [Article 1] (file 1).",
        [1, 1, 3, 2, 1, 1, 1, 2],
        0,
    ),
    "It fills rows[7], then rows [7] and rows [8]; no budget [9], rows [1], of a ⟦5⟧ and rows ⟦6⟧.": (
        "It fills rows[7], then rows [7] and rows [8]; no budget, rows [1], of a and rows [6].",
        [1],
        1,
    ),
    "A [2\u3164] and [\u115f3].": ("A [2] and [3].", [2, 3], 0),
}


def filtered(pieces: list[str]) -> tuple[str, list[int], int]:
    citations = Citations([1, 2, 3])
    text = "".join([*map(citations.feed, pieces), citations.finish()])
    return text, [number for number, _ in citations.cited_sentences], citations.invalid


@pytest.mark.parametrize("text", CASES)
def test_what_exists_stays_and_the_rest_goes(text: str) -> None:
    assert filtered([text]) == CASES[text]


@pytest.mark.parametrize("text", CASES)
def test_pieces_make_the_same_answer_however_they_are_cut(text: str) -> None:
    whole = filtered([text])
    assert filtered(list(text)) == whole
    rng = random.Random(text)
    for _ in range(20):
        cuts = sorted(rng.choices(range(len(text) + 1), k=4))
        assert filtered([text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]) == whole


PARTS = (
    *"[]12 \n`~()（）\\【】†。⟦⟧_#^\t.",
    *(
        "<sup>",
        "</sup>",
        "<cite>",
        "</cite>",
        "words",
        "S1",
        "#1",
        "²",
        "¹",
        "so.",
        "+",
        "[[",
        "]]",
        "9",
        "\n\n",
        "    ",
        "```",
        "~~~",
        "Document ",
        "文書",
        "rows",
        "a",
        "x.y",
        ", ",
        " and ",
        "-",
        "p. ",
        ": ",
    ),
    *("Estate", "= 5", ".name", "1900", "- ", "1. "),
)


@pytest.mark.parametrize("seed", range(20))
def test_any_text_in_pieces_makes_the_same_answer(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        text = "".join(rng.choices(PARTS, k=rng.randint(1, 25)))
        assert filtered(list(text)) == filtered([text])


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("uranium U[235] and rows[7][1]", "uranium U[235] and rows[7][1]"),
        (
            "Tax grew [10%] and [5, 7] in the case (No. 5) of (Text 3).",
            "Tax grew [10%] and in the case (No. 5) of (Text 3).",
        ),
        ("The clause (see 5) applies. [1][2]【3】", "The clause (see 5) applies."),
        ("Built in 1900[1], [[2]] in ⟦x⟧ [2019]", "Built in 1900, in ⟦x⟧ [2019]"),
    ],
)
def test_a_line_of_a_document_loses_what_cites_in_it_alone(line: str, shown: str) -> None:
    assert without_citations(line) == shown


@pytest.mark.parametrize("text", ["v = [1 2]", "The vector [1 2 3] is long.", "as matrix [1 3]"])
def test_numbers_parted_by_blanks_behind_the_name_of_a_vector_cite_nothing(text: str) -> None:
    citations = Citations([1, 2, 3])
    assert citations.feed(text) + citations.finish() == text
    assert not citations.cited_sentences


@pytest.mark.parametrize("text", ["It is so.<sup>1</sup>", "It is <cite>1</cite>.", "It is so.¹", "The Audi [S1]."])
def test_what_a_document_itself_writes_so_cites_nothing(text: str) -> None:
    citations = Citations({1, 2}, f"[1] It says: {text}")
    assert citations.feed(text) + citations.finish() == text
    assert citations.cited_sentences == []


def test_two_digits_above_the_line_are_one_number_where_there_is_such() -> None:
    citations = Citations([1, 2, 12])
    assert citations.feed("It is so.¹² And so.²¹") + citations.finish() == "It is so.[12] And so.[2][1]"


def test_forms_beyond_brackets_are_read_in_linear_time() -> None:
    began = time.process_time()
    for part in ("so.<sup>1</sup> ", "so.¹ ", "so.¹ ² ", "¹,", "<", "<sup>", "[S1] ", "<cite>1"):
        citations = Citations({1}, "many words " * 10_000)
        citations.feed(part * 5_000) + citations.finish()
    assert time.process_time() - began < 5


def test_names_that_are_subscripted_are_looked_for_once() -> None:
    citations = Citations([1], "word rows[0] " * 8000)
    started = time.process_time()
    assert (citations.feed("x [9] rows [9] " * 5000) + citations.finish()).startswith("x rows [9] x")
    assert time.process_time() - started < 5


def test_a_name_that_the_context_subscripts_is_subscripted_by_a_blank_too() -> None:
    citations = Citations([1], "def f(): return cells⟦3⟧")
    assert (
        citations.feed("It reads cells [7], but of budget [7].") + citations.finish()
        == "It reads cells [7], but of budget."
    )


@pytest.mark.parametrize("text", ["The budget is 900 (2).", "The budget is 900 (Document 2)."])
def test_what_a_document_says_in_round_brackets_cites_nothing(text: str) -> None:
    citations = Citations([1, 2], neutral(text))
    citations.feed(neutral(text))
    citations.finish()
    assert citations.cited_sentences == []


def test_a_piece_without_brackets_goes_out_at_once() -> None:
    citations = Citations([1])
    assert citations.feed("Hello") == "Hello"
    assert citations.feed(" world") == " world"
    assert citations.feed(" [") == ""
    assert citations.feed("1") == ""
    assert citations.feed("]") == " [1]"


def test_the_chunk_that_says_it_is_cited() -> None:
    chunks = [
        {"reference": 1, "chunk_id": 10, "content": "Ada Lovelace was born in London."},
        {"reference": 1, "chunk_id": 11, "content": "She wrote notes on the Analytical Engine."},
        {"reference": 2, "chunk_id": 12, "content": "Notes on the Analytical Engine."},
    ]
    names = {"source_key": "a", "title": None}
    references = [{"number": 1, "document_id": 5, **names}, {"number": 2, "document_id": 6, **names}]
    citations = Citations([1, 2])
    citations.feed("It rained. She wrote notes on the Analytical Engine [1].")
    citations.finish()
    cited = cited_documents(
        citations.cited_sentences, {"claims": [], "tables": [], "chunks": chunks, "references": references}
    )
    assert cited == [{"number": 1, "document_id": 5, "source_key": "a", "title": None, "chunk_id": 11}]
