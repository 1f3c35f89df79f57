"""Error rates of real scans: receipts, magazines and books of public repositories, or a folder of your own.

A folder has pages (pictures or PDF), and beside each what is written on it: NAME.txt, or PAGE XML as NAME.xml. Without one the
sets below are fetched, each at one commit. Letters and words: edits against the text in reading order. Found and right: the
share of the text's words that were read, and of what was read that is in the text, in any order. Of receipts only these say
something, since what stands beside each other has no order. Typographic quotes and dashes are plain ones, and words that a line
parts are one.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections import Counter
from pathlib import Path

from lxml import etree
from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import ReadOptions, read

from bench.data.fetched import Repository, fetched
from bench.reading.ocr import bare, error_rate, processor_time, word_error_rate

# Two draws, of which only the first was looked at while blanks were mended.
_RECEIPTS = [f"{number:03}" for draw in (0, 5) for number in range(draw, 100, 10)]
_BOOKS = ("bebel_frau_1879_0146.tif", "bebel_frau_1879_0168.tif", "hilbert_zahlkoerper_1897_0370.jpg")
_MAGAZINES = ("8071_093.3B.tif", "8087_054.3B.tif")
SETS = {
    "magazines": (
        Repository(
            "https://github.com/tesseract-ocr/test",
            "232ff181c66516116ec0e84c4963f70de15050fd",
            tuple(f"testing/{Path(name).stem}{end}" for name in _MAGAZINES for end in (".tif", ".txt")),
        ),
        [f"testing/{name}" for name in _MAGAZINES],
    ),
    "books": (
        Repository(
            "https://github.com/OCR-D/gt_structure_text",
            "379f597a8dada882e6c2e4f509dbf9fdf2ebffa1",
            tuple(
                f"data/{name.rpartition('_')[0]}/GT-PAGE/{file}"
                for name in _BOOKS
                for file in (name, f"{Path(name).stem}.xml")
            ),
        ),
        [f"data/{name.rpartition('_')[0]}/GT-PAGE/{name}" for name in _BOOKS],
    ),
    "receipts": (
        Repository(
            "https://github.com/zzzDavid/ICDAR-2019-SROIE",
            "27be4271b251c256f695acbade9a801bffe85994",
            tuple(path for name in _RECEIPTS for path in (f"data/img/{name}.jpg", f"data/box/{name}.csv")),
        ),
        [f"data/img/{name}.jpg" for name in _RECEIPTS],
    ),
}
_PARTED = re.compile(r"(?<=\w)[-¬⸗]\s*\n\s*(?=[^\W\d_])")
_PLAIN = str.maketrans("“”„«»’‘‚—–―", '"""""' + "'''" + "---")


def text_of_page(path: Path) -> str | None:
    """Return what is written on a page, by the file beside it; None where there is none."""
    if (plain := path.with_suffix(".txt")).exists():
        return plain.read_text(encoding="utf-8", errors="replace")
    if (layout := path.with_suffix(".xml")).exists():
        return _text_of_layout(layout)
    if (boxes := path.parents[1] / "box" / f"{path.stem}.csv").exists():
        with boxes.open(encoding="utf-8", errors="replace", newline="") as file:
            return "\n".join(",".join(row[8:]) for row in csv.reader(file, quoting=csv.QUOTE_NONE))
    return None


def _text_of_layout(path: Path) -> str:
    """Return the lines of PAGE XML, region by region in reading order."""
    root = etree.parse(str(path)).getroot()
    names = {"p": root.nsmap[None]}
    regions = {region.get("id"): region for region in root.iterfind(".//p:TextRegion", names)}
    ordered = [item.get("regionRef") for item in root.iterfind(".//p:RegionRefIndexed", names)]
    chosen = [regions[name] for name in dict.fromkeys([*ordered, *regions]) if name in regions]
    lines = (line for region in chosen for line in region.iterfind("p:TextLine", names))
    return "\n".join(line.findtext("p:TextEquiv/p:Unicode", "", names) for line in lines)


def _shares(text: str, read_text: str) -> tuple[float, float]:
    """Return which share of a text's words was read, and which share of what was read is in it."""
    wanted, got = (Counter(bare(item).upper().split()) for item in (text, read_text))
    common = (wanted & got).total()
    return common / max(1, wanted.total()), common / max(1, got.total())


def main() -> None:
    """Print a line for each page, and the mean of each set."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="pages with their texts beside them")
    parser.add_argument("--set", choices=SETS, help="only this one")
    parser.add_argument("--engine", choices=("rapidocr", "tesseract"), default="rapidocr")
    parser.add_argument("--data", type=Path, help="a folder with the files of the set, instead of fetching them")
    arguments = parser.parse_args()
    sets = {name: SETS[name] for name in SETS if arguments.set in (None, name)}
    if arguments.folder:
        paths = {"yours": [path for path in sorted(arguments.folder.iterdir()) if path.suffix not in (".txt", ".xml")]}
    else:
        paths = {
            name: [fetched(files, arguments.data) / page for page in pages] for name, (files, pages) in sets.items()
        }
    print(f"{'set':10}{'page':34}{'letters':>8}{'words':>7}{'found':>7}{'right':>7}{'confidence':>12}{'seconds':>9}")
    for name, pages in paths.items():
        rows: list[list[float]] = []
        for path in pages:
            if (text := text_of_page(path)) is None:
                continue
            begin = processor_time()
            documents = [
                item
                for item in read(path, path.name, ReadOptions(ocr="always", ocr_engine=arguments.engine))
                if isinstance(item, Document)
            ]
            seconds = processor_time() - begin
            content = "\n".join(item.content for item in documents).translate(_PLAIN)
            sure = [value for item in documents for value in item.metadata["recognised"]["pages"].values()]
            text = _PARTED.sub("", text).translate(_PLAIN)
            confidence = sum(sure) / len(sure) if sure else 0.0
            rows.append(
                [
                    error_rate(text, content),
                    word_error_rate(text, content),
                    *_shares(text, content),
                    confidence,
                    seconds,
                ]
            )
            _print(name, path.name if sure else f"{path.name} left out", rows[-1])
        if rows:
            _print(name, f"mean of {len(rows)}", [sum(column) / len(rows) for column in zip(*rows, strict=True)])


def _print(name: str, page: str, values: list[float]) -> None:
    columns = "".join(
        f"{value:{width}}"
        for value, width in zip(values, ("8.3f", "7.3f", "7.3f", "7.3f", "12.2f", "9.1f"), strict=True)
    )
    print(f"{name:10}{page[:33]:34}{columns}", flush=True)


if __name__ == "__main__":
    main()
