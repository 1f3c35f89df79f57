"""Backslashes in JSON of models: what is a line end or tab stays one, what is a path or LaTeX is none."""

import json

import pytest
from pg_graphrag.ground.lenient_json import Reader, mended


@pytest.mark.parametrize(
    "text",
    [
        "line one\r\nline two", "Vitamin C:\nno effect", "Appendix C:\ntable\nrow", "drive D:\nis full\nnow", "\ni",
        "if (x) {\ni++;\n}\n=\ntotal", "i\nii\niii", "u\nv\nnu\nto", "cost $5\nless tax $6", "name\textra\tnote\ttype\ttext",
        "all:\n\tgcc x.c\n\trm -f x\r\n", "page\fChapter\f\r\nb", "one\rnext\rNext", "grade C:\t\tnone", "\\name\nfoo\nbar",
        "ligne un\net deux", "first.\nat last", "name\tvalue", "fin\nest", "at 5%\nor more", "where\nx\\in R", "a.py\ntest.py",
        "C:\\Users\\new\nis $\\frac{a}{b}$\tand\r\n\\nu", "| a | no |\r\n|---|---|\r\n| e | to |\r\n",
    ],
)  # fmt: skip
def test_valid_json_is_read_as_it_is(text: str) -> None:
    assert json.loads(mended(json.dumps(text))) == text


@pytest.mark.parametrize(
    "path",
    [r"C:\temp", r"in C:\temp\new\x.txt", r"C:\new\file.txt", r"D:\notes.txt", r"C:\nginx\conf", r"C:\Users\new\temp"],
)
def test_paths_are_no_line_ends(path: str) -> None:
    assert json.loads(mended(f'"{path}"')) == path


@pytest.mark.parametrize(
    "path",
    [r"src\new", r"see src\new.", r".\new", r"..\tools\run.bat", r"docs\readme.md", r"lib\text\foo.py", r"%TEMP%\notes",
     r"bin\test", r"app\Http\robots", r"HKEY_LOCAL_MACHINE\Software\nvidia", r"App\Tests\now", r"dist\nw\App"],
)  # fmt: skip
def test_relative_paths_are_no_line_ends(path: str) -> None:
    assert json.loads(mended(f'"{path}"')) == path


@pytest.mark.parametrize(
    "path",
    [r"\\server\new\reports", r"on \\nas01\tools\x", r"(\\192.168.0.1\transfer)", r"\\fileserver\team", r"\\server\share\new",
     r"DOMAIN\robert", r"by ACME\bob.", r"CORP\nina and CORP\alice"],
)  # fmt: skip
def test_shares_and_accounts_are_no_line_ends(path: str) -> None:
    assert json.loads(mended(f'"{path}"')) == path
    assert json.loads(mended(json.dumps(path))) == path


@pytest.mark.parametrize(
    "text",
    ["\\alpha\nbeta", "NATO\nnew members", "NAME\tage", "EU\nreport", "SUM\\name\nfoo", "\\d\tmeans a digit",
     "\\n\tnew line", "\\1\nfoo", "\\x41\nfoo", "\\u00e9\nfoo", "\\frac12\nthen", "x:\n\\sum_1\tthen", "\\textbf\r\nnext",
     "$$\nu = at\n$$", "\\[\nu = at + \\nu\n\\]", "$$\na = b\nu = c\n$$"],
)  # fmt: skip
def test_line_ends_behind_commands_and_capitals_stay(text: str) -> None:
    assert json.loads(mended(json.dumps(text))) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{name: 'A', type: Person}", {"name": "A", "type": "Person"}),
        ('{"name": Anna Berg, "type": a person of note\n}', {"name": "Anna Berg", "type": "a person of note"}),
        ('{名前: "A", id-1: +5, x: .5, y: true}', {"名前": "A", "id-1": 5, "x": 0.5, "y": True}),
        ('{/* all */ "a": ["b", // one\n "c"], "d": "e" // two\n}', {"a": ["b", "c"], "d": "e"}),
        (
            '{"a": "the operator "//" divides", "b": "it is "x" // y"}',
            {"a": 'the operator "//" divides', "b": 'it is "x" // y'},
        ),
        ('{"u": "http://x.y/z", "v": "a // b", "w": "/* c */"}', {"u": "http://x.y/z", "v": "a // b", "w": "/* c */"}),
    ],
)
def test_values_need_no_quotes_and_comments_say_nothing(text: str, value: object) -> None:
    reader = Reader(text, 0)
    assert not reader.torn
    assert reader.value == value


@pytest.mark.parametrize("text", ["{name: Ada Lov", "{a: [see note]}", "{a: so; b}", "{a: 1,000}"])
def test_what_may_be_torn_is_torn(text: str) -> None:
    assert Reader(text, 0).torn


def test_names_need_no_quotes() -> None:
    text = '{entities: [{name: "Ada "the Countess" L.", type: \'person\', note: "so, it: is"}, {"name": "B", n_1: 2}], x: null}'
    reader = Reader(text, 0)
    assert not reader.torn
    assert reader.value == {
        "entities": [
            {"name": 'Ada "the Countess" L.', "type": "person", "note": "so, it: is"},
            {"name": "B", "n_1": 2},
        ],
        "x": None,
    }
    assert Reader('{"said": "He said "yes", note: it"}', 0).value == {"said": 'He said "yes", note: it'}
    assert Reader('{name: "Ada", ty', 0).at_end
