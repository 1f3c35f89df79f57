"""Public English text in short documents: RFCs and the kernel's documentation by section, dictionaries by entry.

Debian's packages (about 300 MB) are downloaded by apt-get from this machine's mirror, with a list of sources of its own,
into ~/.cache/pg_graphrag/public_text; what is read of them is kept there too. The RFCs are in Debian's section non-free.
"""

from __future__ import annotations

import gzip
import html
import json
import os
import re
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pg_graphrag/public_text"
RELEASE, SECTIONS = "bookworm", "main non-free"
PACKAGES = (
    *(f"doc-rfc-{kind}" for kind in ("std", "experimental", "informational", "others", "fyi-bcp")),
    *("linux-doc-6.1", "dict-gcide", "dict-foldoc"),
)
# Characters of a document: sections are cut at paragraphs, and shorter pieces are left out.
SHORTEST, LONGEST = 150, 1500
_RFC_PAGE = re.compile(r"\n*[^\n]*\[Page [^\n]*\n+\f?\n*(RFC [^\n]*\n)?\n*")
_RFC_HEADING = re.compile(r"^(\d+(?:\.\d+)*\.? {1,3}[A-Z][^\n.]{2,70})$", re.MULTILINE)
_RST_HEADING = re.compile(r"^([^\s][^\n]{2,80})\n(?:={3,}|-{3,}|~{3,}|\^{3,}|\*{3,})$", re.MULTILINE)
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")


class Text(NamedTuple):
    """A document: a key that says where it is from, a title, and the text."""

    key: str
    title: str
    content: str


def texts() -> list[Text]:
    """Return all documents in an order that mixes their sources, the same every time."""
    archive = CACHE / "documents.jsonl.gz"
    if not archive.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            download(PACKAGES, Path(folder))
            documents = {text.key: text for text in _read(Path(folder))}
            ordered = sorted(documents.values(), key=lambda text: (zlib.crc32(text.key.encode()), text.key))
            part = Path(folder) / "documents"
            with gzip.open(part, "wt", encoding="utf-8", compresslevel=3) as file:
                file.writelines(json.dumps(text) + "\n" for text in ordered)
            part.replace(archive)
    with gzip.open(archive, "rt", encoding="utf-8") as file:
        return [Text(*json.loads(line)) for line in file]


def download(packages: Sequence[str], folder: Path) -> None:
    """Unpack Debian's packages into a folder."""
    for name in ("lists/partial", "archives/partial", "packages"):
        (folder / name).mkdir(parents=True)
    (folder / "sources.list").write_text(f"deb {_mirror()} {RELEASE} {SECTIONS}\n", encoding="utf-8")
    options = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "archives",
        "APT::Sandbox::User": "",
    }
    command = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    subprocess.run([*command, "update"], check=True)
    subprocess.run([*command, "download", *packages], check=True, cwd=folder / "packages")
    for package in sorted((folder / "packages").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
        package.unlink()


def _mirror() -> str:
    """Return the address that this machine's apt-get has Debian's section main from."""
    command = [
        "apt-get",
        "indextargets",
        "--format",
        "$(SITE)",
        "Created-By: Packages",
        "Label: Debian",
        "Component: main",
    ]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    if not (mirrors := sorted({site for site in output.split() if site})):
        raise SystemExit("apt-get knows no mirror of Debian: add one to its sources, and run apt-get update")
    return mirrors[0]


def _read(folder: Path) -> Iterator[Text]:
    documentation = folder / "usr/share/doc"
    for file in sorted((documentation / "RFC").rglob("rfc*.txt.gz")):
        if not file.is_symlink():
            text = _RFC_PAGE.sub("\n", _unpacked(file))
            name = file.name.split(".")[0]
            yield from _sections(name, name.upper().replace("RFC", "RFC "), text, _RFC_HEADING)
    kernel = documentation / "linux-doc-6.1/Documentation"
    for file in sorted(path for pattern in ("*.rst", "*.rst.gz") for path in kernel.rglob(pattern)):
        if not file.is_symlink():
            name = str(file.relative_to(kernel)).removesuffix(".gz").removesuffix(".rst")
            yield from _sections(f"linux/{name}", f"Linux {name}", _unpacked(file), _RST_HEADING)
    for dictionary in ("gcide", "foldoc"):
        yield from _entries(folder / "usr/share/dictd", dictionary)


def _unpacked(file: Path) -> str:
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return data.decode("utf-8", "replace").replace("\x00", "").replace("\r", "")


def _sections(key: str, title: str, text: str, heading: re.Pattern[str]) -> Iterator[Text]:
    """Yield the sections of a text, long ones in parts."""
    parts = heading.split(text)
    number = 0
    for name, body in zip(["", *parts[1::2]], parts[::2], strict=True):
        for piece in _pieces(body):
            number += 1
            yield Text(f"{key}#{number}", f"{title}, {name}" if name else title, piece)


def _pieces(body: str) -> Iterator[str]:
    piece = ""
    for paragraph in _PARAGRAPHS.split(body):
        letters = sum(character.isalpha() or character.isspace() for character in paragraph)
        if not paragraph.strip() or letters < 0.85 * len(paragraph):
            continue  # drawings, tables, code
        if len(piece) + len(paragraph) > LONGEST and len(piece) >= SHORTEST:
            yield piece.strip()
            piece = ""
        piece = f"{piece}\n\n{' '.join(paragraph.split())}"[: 2 * LONGEST]
    if len(piece) >= SHORTEST:
        yield piece.strip()


def _entries(folder: Path, dictionary: str) -> Iterator[Text]:
    """Yield the entries of a dictionary in the format of dictd."""
    text = gzip.decompress((folder / f"{dictionary}.dict.dz").read_bytes())
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    def number(word: str) -> int:
        value = 0
        for digit in word:
            value = 64 * value + digits.index(digit)
        return value

    places = {}
    for line in (folder / f"{dictionary}.index").read_text(encoding="utf-8").splitlines():
        word, start, length = line.split("\t")[:3]
        if not word.startswith("00-database"):
            places.setdefault(number(start), (word, number(length)))
    for start, (word, length) in sorted(places.items()):
        content = text[start : start + length].decode("utf-8", "replace").replace("[1913 Webster]", "")
        content = "\n\n".join(" ".join(part.split()) for part in _PARAGRAPHS.split(html.unescape(content)))
        if SHORTEST <= len(content) <= 2 * LONGEST:
            yield Text(f"{dictionary}/{word}@{start}", word, content.strip())
