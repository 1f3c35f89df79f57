"""The page's words: each language has those that the page says, and no others."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pg_graphrag.beside import serve

STATIC = Path(serve.__file__).with_name("static")
LANGUAGES = sorted(path.stem for path in (STATIC / "words").glob("*.json"))
# t("…") and tn(count, "…", "…"), whose count has no comma outside brackets.
_CALL = re.compile(r'(?<![\w.])t\("((?:[^"\\]|\\.)*)"|(?<![\w.])tn\([^"]*?, "((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"')
_VALUE = re.compile(r"\{\w+\}")


class _Marked(HTMLParser):
    """Texts and names of the elements that are marked `data-t`."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: set[str] = set()
        self._is_marked = False

    def handle_starttag(self, _: str, attributes: list[tuple[str, str | None]]) -> None:
        self._is_marked = "data-t" in dict(attributes)
        if self._is_marked:
            self.keys.update(
                value for name, value in attributes if name in ("aria-label", "title", "placeholder") and value
            )

    def handle_data(self, data: str) -> None:
        if self._is_marked and re.search(r"[^\W\d_]", data):
            self.keys.add(data.strip())
        self._is_marked = False


def keys() -> set[str]:
    marked = _Marked()
    marked.feed((STATIC / "index.html").read_text())
    calls = [match for path in STATIC.glob("*.js") for match in _CALL.findall(path.read_text())]
    return marked.keys | {json.loads(f'"{key}"') for call in calls for key in call if key}


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_are_complete(language: str) -> None:
    words = json.loads((STATIC / "words" / f"{language}.json").read_text())
    assert words.keys() == keys()
    assert [
        key for key, text in words.items() if set(_VALUE.findall(key)) != set(_VALUE.findall(text)) or not text
    ] == []


def test_page_has_four_languages() -> None:
    assert LANGUAGES == ["de", "ja", "zh"]
