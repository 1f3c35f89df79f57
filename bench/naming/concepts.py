"""What the NLP extractor makes entities of: lists to be read, and the share that a reader called junk.

    python -m bench concepts --write build/concepts            lists of every corpus, to be labelled
    python -m bench concepts --labels bench/naming/concept_labels.tsv  the shares, by labels
    python -m bench concepts --texts faq=/usr/share/doc/debian/FAQ:en …

Two lists of each corpus: the 50 entities with most neighbours, and 200 drawn by a hash of their keys, so that an entity that two
versions have is drawn in both. A label is one line of a file: corpus, key, and ``ok`` or a kind of junk, with tabs between. The
rules of labelling:

    code         a line, a call or an operator of a program; an identifier that no sentence names
    latex        a command or a variable of a formula (cdot, mathcal)
    url          a part of an address (http, arxiv.org)
    front        metadata before the text (layout, tags), a key of YAML or of a mail's head
    licence      words of a licence or of a legal notice that is not the text's theme
    furniture    navigation, captions, numbering of sections, "Next", "Table 3", running heads
    table        rules and empty cells of tables
    placeholder  what stands for a name (untitled, README, foo, the stem of a file)
    fragment     cut in the middle of a word, a name or a phrase; words of two phrases or sentences
    verb         has a verb, or is an action with its object, an adjective or an adverb alone
    generic      says nothing without its sentence: "new way", "different type", 方法, 場合; the name of a day or a month alone
    ok           everything else: one would look it up in the index of a book, or ask what it is or who it is

``junk`` is any of them, where the reader did not say which. ``ok`` says nothing of whether an entity is important. What two rules
fit has the first one.
"""

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pg_graphrag.beside.readers import Document, read
from pg_graphrag.index.graph.drafts import DocumentDraft
from pg_graphrag.index.indexing.item_vectors import WindowNames, document_names
from pg_graphrag.index.indexing.prepare import add_concepts, draft, own_proses
from pg_graphrag.llm.embedding.document_embedder import _embedder, fastest
from pg_graphrag.llm.embedding.name_tagger import Reading
from pg_graphrag.server.corpus.options import MULTILINGUAL_MODEL, Options
from pg_graphrag.text.tokenizers import tokenizer

from bench.data.corpora import lines

TOP, DRAWN = 50, 200
SUFFIXES = (".txt", ".md", ".html", ".rst", ".adoc", ".org", ".tex", ".mediawiki", ".page", ".docbook")
LONGEST_CONTEXT = 160


@dataclass
class Entity:
    """An entity of a corpus: how often it stands where, its spellings, neighbours, and a sentence that states it."""

    type: str
    mentions: int = 0
    spellings: Counter[str] = field(default_factory=Counter)
    neighbours: set[str] = field(default_factory=set)
    sentence: str = ""


Text = tuple[str | None, str]


def public(data: Path, name: str) -> Iterator[Text]:
    """Yield (title, text) of the documents of a set of ../shared/data."""
    if name == "christmas-carol":
        from pyarrow.parquet import read_table

        yield None, read_table(data / name / "documents.parquet").column("text")[0].as_py()
    elif name == "articles":
        for file in sorted((data / name).glob("*.txt")):
            yield None, file.read_text(encoding="utf-8")
    elif name == "lihua-world":
        yield from (
            (None, document["text"]) for document in lines(data / name / "docs.jsonl") if document["id"][:6] <= "202606"
        )
    else:
        # Titles are the same in many passages of a page.
        yield from (
            (document["title"] or None, document["text"]) for document in lines(data / name / "docs.jsonl")[:600]
        )


def folder(path: Path) -> Iterator[Text]:
    """Yield (title, text) of the files below a folder, at most 200 of them."""
    files = [file for file in sorted(path.rglob("*")) if file.suffix in SUFFIXES and file.is_file()]
    for file in files[:: max(1, len(files) // 200)][:200]:
        for document in read(file, file.name):
            if isinstance(document, Document):
                yield document.title, document.content


PUBLIC = ("christmas-carol", "lihua-world", "musique", "jsquad", "drcd", "cmrc", "articles")


def drafts(texts: Iterable[Text], options: Options) -> list[DocumentDraft]:
    """Return drafts of documents, without mentions."""
    cut = tokenizer(options.tokenizer)
    found = []
    for title, content in texts:
        *_, whole = draft(0, "", title, content, options, cut)
        if whole is not None and whole.chunks:
            found.append(whole)
    return found


def read_by(model: str, whole: Iterable[DocumentDraft]) -> WindowNames:
    """Return what a local model reads in drafts of documents."""
    texts = list(dict.fromkeys(text for item in whole for text in item.window_texts))
    readings: dict[str, Reading] = {}
    for places, _, batch_readings in _embedder(model, fastest()[0]).tag_batches(texts):
        readings.update(zip((texts[place] for place in places), batch_readings, strict=True))
    return WindowNames({}, readings)


def extracted(texts: list[Text], language: str, model: str = MULTILINGUAL_MODEL) -> tuple[dict[str, Entity], float]:
    """Return the entities of documents by their keys, and the processor time that it took, in seconds."""
    options = Options(language=language)
    entities: dict[str, Entity] = {}
    started = time.process_time()
    documents = drafts(texts, options)
    read = read_by(model, documents)
    for whole in documents:
        names = document_names(whole.title, whole.chunks, read)
        proses = own_proses(whole.chunks)
        for _ in add_concepts(whole.chunks, whole.title, proses, names, with_full_names=options.full_names):
            pass
        for chunk in whole.chunks:
            for key, mention in chunk.entities.items():
                entity = entities.setdefault(key, Entity(mention.type))
                entity.mentions += mention.tf
                entity.spellings.update(mention.spellings)
                if mention.evidence and (not entity.sentence or mention.evidence.text < entity.sentence):
                    entity.sentence = mention.evidence.text
            for source, target in chunk.relationships:
                entities[source].neighbours.add(target)
                entities[target].neighbours.add(source)
    return entities, time.process_time() - started


def lists(entities: dict[str, Entity]) -> dict[str, list[str]]:
    """Return the keys of the two lists."""
    by_degree = sorted(entities, key=lambda key: (-len(entities[key].neighbours), key))
    by_hash = sorted(entities, key=lambda key: hashlib.blake2b(key.encode(), digest_size=8).digest())
    return {"top": by_degree[:TOP], "drawn": by_hash[:DRAWN]}


def context(sentence: str, name: str) -> str:
    """Return what surrounds a name in the sentence that states it."""
    place = max(0, sentence.casefold().find(name.casefold()) - LONGEST_CONTEXT // 2)
    return sentence[place : place + LONGEST_CONTEXT]


def read_labels(path: Path) -> dict[tuple[str, str], str]:
    """Return {(corpus, key): label}."""
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line)
    return {(corpus, key): label for corpus, key, label in rows}


def counted(keys: list[str], corpus: str, labels: dict[tuple[str, str], str]) -> str:
    """Return the share of junk among labelled keys, and its kinds."""
    given = [labels[corpus, key] for key in keys if (corpus, key) in labels]
    kinds = Counter(label for label in given if label != "ok")
    if not given:
        return f"not labelled ({len(keys)})"
    unlabelled = f", {len(keys) - len(given)} without a label" if len(given) < len(keys) else ""
    most = " ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    return f"{kinds.total() / len(given):5.1%} of {len(given)}{unlabelled} ({most})"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument(
        "--texts", nargs="+", default=[], metavar="NAME=FOLDER[:LANGUAGE]", help="corpora of one's own"
    )
    arguments.add_argument("--only", nargs="+", help="some of the corpora")
    arguments.add_argument("--labels", type=Path, help="labels to count with")
    arguments.add_argument("--write", type=Path, metavar="FOLDER", help="write the lists as FOLDER/CORPUS.tsv")
    given = arguments.parse_args()
    labels = read_labels(given.labels) if given.labels else {}
    corpora = {name: (lambda name=name: public(given.data, name), "auto") for name in PUBLIC}
    for text in given.texts:
        name, _, place = text.partition("=")
        path, _, language = place.partition(":")
        corpora[name] = (lambda path=path: folder(Path(path)), language or "auto")
    if given.write:
        given.write.mkdir(parents=True, exist_ok=True)
    for name, (texts, language) in corpora.items():
        if given.only and name not in given.only:
            continue
        documents = list(texts())
        if not documents:
            sys.exit(f"no documents for {name}")
        entities, seconds = extracted(documents, language)
        characters = sum(len(content) for _, content in documents)
        print(
            f"{name}: {len(documents)} documents, {characters:,} characters, {len(entities):,} entities, {seconds:.1f} s"
        )
        for kind, keys in lists(entities).items():
            if labels:
                print(f"    {kind:5} junk {counted(keys, name, labels)}")
        if given.write:
            rows = [
                {
                    "list": kind,
                    "key": key,
                    "name": max(sorted(entities[key].spellings), key=entities[key].spellings.__getitem__),
                    "type": entities[key].type,
                    "degree": len(entities[key].neighbours),
                    "context": context(entities[key].sentence, key),
                }
                for kind, keys in lists(entities).items()
                for key in keys
            ]
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (given.write / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
