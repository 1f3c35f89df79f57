"""What of a document is prose: where concepts are looked for, and where not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pg_graphrag.text.prose import prose
from pg_graphrag.text.words.concepts import concepts
from pg_graphrag.text.words.names import title_name

pytest.importorskip("HanTa")

FRONT_MATTER = "---\nlayout: post\ntags: [Secret Tag]\n---\nAda Lovelace wrote notes.\n"
FENCE = "Call EmbeddingFunc.\n```python\nother_name = EmbeddingFunc(WrongName)\n```\nAda Lovelace wrote notes.\n"
LATEX = "Ada Lovelace has $\\mathcal{V}_{Graph}$ and\n$$\\frac{Num}{Den}$$\nnodes of \\text{Alpha}."
GUTENBERG = (
    "The Project Gutenberg eBook\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\nBob Cratchit sat.\n"
    "*** END OF THE PROJECT GUTENBERG EBOOK X ***\nUpdated Editions will replace them.\n"
)
LICENCE = (
    "Ada Lovelace wrote notes.\n\nPermission is hereby granted to Wrong Name, free of charge. The software comes without"
    " warranty of any kind.\n"
)
ROWS = "".join(
    f"- Sternname: {name}; English Name: {other}; Weight: 3\n"
    for name, other in (("Wega", "Vega"), ("Beteigeuze", "Betelgeuse"), ("Sirius", "Dog Star"))
)
TALK = "Ann Lee: I met Bob Stone; he was late.\n" * 4
CONTENTS = "Stave One 3\nStave Two 34\nStave Three 65\nStave Four 111\n\nAda Lovelace wrote notes.\n"


def names(text: str, language: str = "en") -> set[str]:
    if language in ("ja", "zh"):
        pytest.importorskip({"ja": "sudachipy", "zh": "jieba"}[language])
    return {concept.name for concept in concepts(prose(text), language)}


@pytest.mark.parametrize(
    ("text", "gone", "stays"),
    [
        ("Ruby 2.6.0-preview2 und 1.9.2 preview1 [Feature #14230]", ("preview", "Feature"), "Ruby 2.6.0"),
        ("Fixes #12 of v2018.01+bremen1, PR #669", ("Fixes", "bremen", "PR"), "v2018.01"),
        ("Misskey&emsp14;と&frac12;CSS", ("emsp", "frac"), "CSS"),
        ("He left Marks&Spencer; she read the Q&As; they met.", (), "Marks&Spencer; she read the Q&As;"),
        ('<a href="https://shop.example/' + "%E3%82tag" * 90 + '" class="box">Ada</a>', ("tag", "box"), "Ada"),
        ("if x <y holds and " + "the pump runs " * 30 + "then y> z", (), "the pump runs"),
        ("Symphony #5 in 3.5 or 3.5.1", (), "Symphony #5 in 3.5 or 3.5.1"),
    ],
)
def test_entries_of_trackers_and_ends_of_versions_are_no_prose(text: str, gone: tuple[str, ...], stays: str) -> None:
    left = prose(text)
    assert len(left) == len(text)
    assert stays in left
    assert not any(word in left for word in gone)


@pytest.mark.parametrize(
    ("text", "gone", "stays"),
    [
        ("Many studies [@tag:Laird2010; see @Liu2013, p. 3] agree.", ("Laird", "Liu", "see"), "agree."),
        ("Chryssolouris et al. [@doi:10.1/x] (@sec-discovery) asked.", ("10.1", "discovery"), "asked."),
        ("Then [@bob] wrote to @ann_1, and [@user1](/u/1) met Kurt.", (), "[@bob] wrote to @ann_1, and [@user1]"),
        ("It is [Ann Stone, ann@web2.org] who asks.", ("web2",), "[Ann Stone, "),
        ("[@bob: Kurt Weill is here] was all.", (), "[@bob: Kurt Weill is here] was all."),
    ],
)
def test_citations_of_pandoc_are_no_prose_and_people_are(text: str, gone: tuple[str, ...], stays: str) -> None:
    left = prose(text)
    assert len(left) == len(text)
    assert stays in left
    assert not any(word in left for word in gone)


def test_formulas_beside_han_and_references_of_myst_are_no_prose() -> None:
    text = "损失也按$x_i$加权，价格是US$5和$6。请看 :numref:`fig_jupyter`和 :cite:`Knuth.1984`。"
    own = prose(text)
    assert len(own) == len(text)
    assert not any(word in own for word in ("x_i", "fig_jupyter", "Knuth"))
    assert "US$5和$6" in own


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FRONT_MATTER, {"Ada Lovelace"}),
        (FENCE, {"EmbeddingFunc", "Ada Lovelace"}),
        (LATEX, {"Ada Lovelace"}),
        (GUTENBERG, {"Bob Cratchit"}),
        (LICENCE, {"Ada Lovelace"}),
        (CONTENTS, {"Ada Lovelace"}),
        (ROWS, {"Wega", "Vega", "Beteigeuze", "Betelgeuse", "Sirius", "Dog Star"}),
        (ROWS.split("\n")[0], {"Sternname", "Wega", "English Name", "Vega", "Weight"}),
        (TALK, {"Ann Lee", "Bob Stone"}),
        (
            "See https://arxiv.org/abs/2412.15605 or www.example.org, by Ada Lovelace <ada@example.org>.",
            {"Ada Lovelace"},
        ),
        ("YOU AGREE THAT YOU HAVE NO REMEDIES. \n", set()),
        ("$ sudo systemctl stop Postfix\nAda Lovelace wrote notes.", {"Ada Lovelace"}),
        ("Files are in /usr/share/Doc/Base.txt, says Ada Lovelace.", {"Ada Lovelace"}),
        ("346 230 E6 LATIN SMALL Letter\nAda Lovelace wrote notes.", {"Ada Lovelace"}),
        ("name | place | age\nAda Lovelace | London | 36\n", {"Ada Lovelace", "London"}),
        (
            "## Lovelace Notes {#Wrong-Anchor}\n\nWe read [Ada Lovelace](../Wrong/Path.md#Wrong-Event).",
            {"Ada Lovelace", "Lovelace Notes"},
        ),
        ("We saw _Ada Lovelace_ and Snake_Case.", {"Ada Lovelace", "Snake_Case"}),
        (":::Warning Ada Lovelace\nShe met Bob Stone.\n:::", {"Ada Lovelace", "Bob Stone"}),
        ("Its key is 5C28 0144 FB08 91C0 2CF3 37AC, says Bob Stone in 1f6a4c0d2b.", {"Bob Stone"}),
        (
            "Bob Stone has 550E8400-E29B-41D4-A716-446655440000, 16VmigPy1rEAyNpGgTG7fZGR2uFceDGV6 and U+FBD7-U+FBD8.",
            {"Bob Stone"},
        ),
        ("ОПИСАНИЕ\n  Bob Stone\nVÉASE TAMBIÉN\n", {"Bob Stone"}),
        ("On Windows2000Server runs ISO8859.", {"Windows2000Server", "ISO8859"}),
        (
            "It has onMounted and onOpened.\n```js\nimport { onMounted, onOpened } from 'x'\n```\n",
            {"onMounted", "onOpened"},
        ),
        (
            "Call `getAll()` by `fetchAb`, says Ada Lovelace.\n```js\nasync function fetchAb() { await getAll() }\n```\n",
            {"getAll", "Ada Lovelace"},
        ),
        ("It costs $5 in Osaka and $7 in Kyoto.", {"Osaka", "Kyoto"}),
    ],
)
def test_english(text: str, expected: set[str]) -> None:
    assert names(text) == expected


def test_japanese() -> None:
    text = (
        "東京タワーは$\\cdot$で、https://東京.example/大阪城 にある。\n```\n京都駅 = 1\n```\n関連項目\n表2.7 名古屋城\n"
    )
    assert names(text, "ja") == {"東京タワー", "東京", "名古屋城"}


def test_chinese() -> None:
    text = "北京大学在$\\mathcal{上海}$。\n参见\n```\n广州 = 1\n```\n"
    assert names(text, "zh") == {"北京大学"}


@pytest.mark.parametrize("text", ["Money: $5 and $6.", "SQL and LLM", "Li Hua: see you at 10\n"])
def test_prose_stays_as_it_is(text: str) -> None:
    assert prose(text) == text


@given(st.text(st.sampled_from("aA1 \n$\\{}`|-=_.:/<>@()#\"'東あ的"), max_size=300))
@settings(max_examples=300)
def test_every_character_stays_at_its_place(text: str) -> None:
    clean = prose(text)
    assert len(clean) == len(text)
    assert all(a.casefold() == b.casefold() or b in " \ufffc" for a, b in zip(text, clean, strict=True))


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("untitled", ""),
        ("README", ""),
        ("Untitled (3)", ""),
        ("無題", ""),
        ("无标题 2", ""),
        ("scan_0012.pdf", ""),
        ("grep.1", ""),
        ("53.38. pg_policy", "pg_policy"),
        ("B.6. History of Units", "History of Units"),
        ("Kestrel", "Kestrel"),
        ("2001: A Space Odyssey", "2001: A Space Odyssey"),
        ("Installing — Reference 12.18", "Installing"),
        ("GraphRAG — ナレッジグラフ", "GraphRAG"),
        ("Template Syntax {#template-syntax}", "Template Syntax"),
        ("Notation Reference: 1.2.4 Beams", "Beams"),
        ("PostgreSQL: 17.2 is out", "PostgreSQL: 17.2 is out"),
        ("Epigraph", ""),
        ("Ver. 202303.0 (2023年3月6日)", ""),
        ("v1.2.3 - 2024-05-01", ""),
        ("PostgreSQL 17.2", "PostgreSQL 17.2"),
        ("XXIV", ""),
        ("Chapter IV", ""),
        ("CHAPTER IV.", ""),
        ("Part Two", "Part Two"),
        ("Kapitel 3", ""),
        ("Titre IV bis", ""),
        ("Livre Ier", ""),
        ("Capítulo II", ""),
        ("第3章", ""),
        ("Chapter IV: The Trial", "The Trial"),
        ("Section 230", "Section 230"),
        ("Article 50", "Article 50"),
        ("Title IX", "Title IX"),
        ("Título IX", "Título IX"),
        ("TITRE IX", "TITRE IX"),
        ("Titre 9", ""),
        ("Chapter 11", "Chapter 11"),
        ("Chapter 7", "Chapter 7"),
        ("Chapter 8", ""),
        ("Chapter VII", ""),
        ("chapter 3.xhtml", ""),
        ("Part 11", "Part 11"),
        ("PART 15", "PART 15"),
        ("Part 2", ""),
        ("Part II", ""),
        ("Part ill", "Part ill"),
        ("Part mix", "Part mix"),
        ("Book IIII", "Book IIII"),
        ("Appendix C", ""),
        ("Book Club", "Book Club"),
        ("💖 行動規範ガイドライン", "行動規範ガイドライン"),
        ("🚀 Launch of Heron ✨", "Launch of Heron"),
        ("I ❤ NY", "I ❤ NY"),
        ("★", "★"),
        ("C# and C++", "C# and C++"),
        ("#MeToo", "#MeToo"),
        ("vi", "vi"),
        ("第 11 章 定制您的系统", "定制您的系统"),
        ("第1章 まずは正攻法で始めよう", "まずは正攻法で始めよう"),
    ],
)
def test_titles_that_are_names(title: str, name: str) -> None:
    assert title_name(title) == name


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        ("ＲＺ－５００Ｋも古い。", "RZ-500Kも古い。"),
        (
            "The RZ\u2010500K, the RZ\u2011500K, the RZ\u2013500K and the RZ\u2212500K.",
            "The RZ-500K, the RZ-500K, the RZ-500K and the RZ-500K.",
        ),
        ("Schleif\u2010Öl", "Schleif-Öl"),
        (
            "Pages 5\u20137, Paris\u2013Lyon, x \u2212 5, データ－ベース, － a",
            "Pages 5\u20137, Paris\u2013Lyon, x \u2212 5, データ－ベース, － a",
        ),
    ],
)
def test_letters_and_hyphens_are_of_the_usual_kind(text: str, usual: str) -> None:
    assert prose(text) == usual
