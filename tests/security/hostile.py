"""Texts that patterns and scanners are known to trip over. Each is repeated until it has the length that is wanted."""

# By what they are: two characters of Python are none of PostgreSQL's, so nothing here holds NUL or half a surrogate pair.
REPEATED = {
    "one Han character": "東",
    "Han and a small ke": "東ヶ",
    "kana": "かナｶﾞ",
    "opening brackets": "(",
    "closing brackets": ")",
    "brackets around a word": "(a)",
    "words of one letter": "a ",
    "words with full stops": "a.",
    "initials": "A. ",
    "capitalised words": "Ab ",
    "camel case": "aB",
    "the the": "the the, ",
    "quotes": '"',
    "quotes and blanks": '" ',
    "apostrophes": "O'",
    "titles of works": "《a",
    "nested quotes": "『「a",
    "thoughts": "<think>",
    "thoughts that end": "x\n</think> ",
    "citations": "[1",
    "citations in round brackets": "a(1);",
    "corner brackets": "【1】",
    "ranges": "[1-",
    "digits": "1",
    "versions": "1.1.",
    "grouped digits": "1,000,",
    "dates": "2020-01-",
    "dots": ".",
    "ellipses": "…",
    "escapes of surrogates": "\\ud83d",
    "backslashes": "\\",
    "combining marks": "a\u0301\u0300",
    "marks alone": "\u0301",
    "blanks": " ",
    "line ends": "\n",
    "lines of blanks": "   \n",
    "lines of names": "東\n",
    "rows of a table": "|\n",
    "ligatures that grow": "\ufdfa",
    "joiners": "\u200d👨",
    "addresses": "http://a.b/",
    "mail": "a@b.c ",
    "long hexadecimal": "deadbeef",
    "nested JSON": '{"a":',
    "nested lists": "[",
    "objects": '{"name": x} ',
    "commas": ",",
    "slashes": "/",
    "comments": "/*",
    "delimiters": "(a<|",
    "rows": ")\n(",
    "ticks": "``` ",
    "underscores": "_a",
    "hyphens": "a-",
    "particles": "von of ",
    "references": "[Data: a (1",
}
# Ends of which a pattern hopes to the last character.
ENDED = {
    "blanks between letters": ("x", " ", "x"),
    "blanks before a bracket": ("x", " ", ")"),
    "digits before a letter": ("1.", "1", "a"),
    "quotes around a letter": ('"', '" ', "a"),
    "an open string": ('"', '\\"', "x"),
    "an open thought": ("<think>", "a ", "."),
}


def text(shape: str, length: int) -> str:
    """Return a text of this shape and length."""
    if shape in REPEATED:
        return _repeated(REPEATED[shape], length)
    begin, middle, end = ENDED[shape]
    return begin + _repeated(middle, length - len(begin) - len(end)) + end


def _repeated(part: str, length: int) -> str:
    return (part * (length // len(part) + 1))[:length]
