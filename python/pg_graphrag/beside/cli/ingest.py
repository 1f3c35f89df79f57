"""``pg-graphrag ingest``: files into ``graphrag.documents``."""

import argparse
import codecs
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from pg_graphrag.beside.cli.open_database import connect, explain
from pg_graphrag.beside.cli.progress import Display
from pg_graphrag.beside.cli.status import follow
from pg_graphrag.beside.cli.terminal import printable
from pg_graphrag.beside.client import Document, GraphRAG, InsertSummary
from pg_graphrag.beside.readers import ReadError, ReadOptions, ReadProgress, ReadWarning, Skipped, walk
from pg_graphrag.beside.readers.gathered import gathered
from pg_graphrag.beside.readers.isolated import IsolatedReader
from pg_graphrag.beside.readers.ocr.installed import ocr_of
from pg_graphrag.ground.document import batches
from pg_graphrag.ground.errors import GraphRAGError

# Errors of a document, not of the server or the connection: the others go on.
_DOCUMENT_ERRORS = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)
_MAX_NAMES = 10
_PATIENCE = 30.0  # seconds without a job at work after which --wait says that a worker is needed


def ingest(args: argparse.Namespace) -> int:
    """Insert the files below paths; returns the exit status: 1 when any could not be read or stored."""
    if args.encoding is not None:
        _check_encoding(args.encoding)
    if args.prune and not all(Path(path).is_dir() for path in args.paths):
        raise GraphRAGError(
            "--prune deletes what is no longer in a folder, but not every PATH is one",
            hint="Give the folders, or delete documents in SQL: DELETE FROM graphrag.documents WHERE …",
        )
    ocr = ocr_of(args.ocr, args.ocr_engine)
    options = ReadOptions(args.encoding, args.by_row, pictures=args.pictures, ocr=ocr, ocr_engine=args.ocr_engine)
    with connect(args.url, args.corpus) as connection, IsolatedReader(options) as reader:
        _check_corpus(connection, args.corpus)
        run = _Ingestion(GraphRAG(connection, args.corpus), args.prefix, reader, options)
        try:
            for path in args.paths:
                run.add(Path(path), args.exclude)
        except psycopg.OperationalError as error:
            raise _cut_off(run, error) from None
        run.report_skipped(args.show_skipped)
        print(run.report(), flush=True)
        if args.prune:
            _prune(connection, args.corpus, run)
        if args.wait:
            _wait(connection, args.corpus)
    return 1 if run.errors else 0


def _cut_off(run: "_Ingestion", error: psycopg.OperationalError) -> GraphRAGError:
    return GraphRAGError(
        f"{explain(error)}\nuntil then, {run.report()}",
        sqlstate=error.sqlstate or "08006",
        hint="Run it again: what is there already costs nothing.",
    )


def _check_corpus(connection: psycopg.Connection[Any], corpus: str) -> None:
    """Refuse an unknown corpus before files are read; "default" is made by its first document."""
    with connection.transaction():
        row = connection.execute(
            "SELECT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = %s)", [corpus]
        ).fetchone()
    if corpus != "default" and row != (True,):
        raise GraphRAGError(
            f'corpus "{corpus}" does not exist', sqlstate="42704", hint="Create it with graphrag.create_corpus(…)."
        )


def _check_encoding(name: str) -> None:
    try:
        codecs.lookup(name)
        b"".decode(name)
    except LookupError:
        raise GraphRAGError(
            f"there is no encoding {name!r}",
            hint="For example utf-8, shift_jis, euc_jp, gb18030, big5, latin-1, cp1252.",
        ) from None


class _Ingestion:
    """Reads files and inserts their documents in batches, each committed: a second run goes on from there."""

    def __init__(self, client: GraphRAG, prefix: str, reader: IsolatedReader, options: ReadOptions):
        self.prefix = prefix
        self._reader, self._options = reader, options
        self._skipped: dict[str, list[str]] = {}
        self.keys: dict[str, Path] = {}
        # Paths of files and attachments that are there and were not read this time.
        self.unread: set[str] = set()
        self.errors = 0
        self._client = client
        self._files: set[tuple[Path, str]] = set()
        self._summary = InsertSummary(0, 0, 0)

    def add(self, root: Path, exclude: Sequence[str]) -> None:
        """Insert the documents of a file or folder."""
        if self._options.pictures:
            for document, pictures in self._documents(root, exclude):
                self._add_one(document, pictures)
            return
        for batch in batches(document for document, _ in self._documents(root, exclude)):
            try:
                self._summary += self._client.insert(batch)
            except _DOCUMENT_ERRORS:
                self._add_one_by_one(batch)
            self._show()

    def report(self) -> str:
        """Print what was done."""
        summary = self._summary
        counts = f"{summary.inserted:,} new, {summary.updated:,} changed, {summary.unchanged:,} unchanged"
        skipped = sum(map(len, self._skipped.values()))
        ends = (
            f"{self.errors:,} {'error' if self.errors == 1 else 'errors'}{f', {skipped:,} skipped' if skipped else ''}"
        )
        return f"{len(self._files):,} files: {counts}, {ends}"

    def report_skipped(self, all_names: bool) -> None:
        """Name skipped files on standard error, by kind; of a kind with many files the first ones."""
        for kind, names in sorted(self._skipped.items()):
            shown = names if all_names else names[:_MAX_NAMES]
            more = (
                f" and {len(names) - len(shown):,} more (--show-skipped names them)" if len(names) > len(shown) else ""
            )
            self._say(f"skipped {len(names):,} {kind}: {', '.join(shown)}{more}")

    def _documents(self, root: Path, exclude: Sequence[str]) -> Iterator[tuple[Document, list[dict[str, Any]]]]:
        for entry in walk.files(root, exclude, self._options.reads_pictures):
            if isinstance(entry, ReadError):
                self._fail(str(entry))
                continue
            if isinstance(entry, Skipped):
                self._skip(entry)
                continue
            path, key = entry
            file = (path.resolve(), key)
            if file in self._files:
                continue
            self._files.add(file)
            has_warning = has_document = False
            for item in gathered(self._reader.read(path, key)):
                if isinstance(item, ReadError):
                    self._fail(str(item))
                elif isinstance(item, ReadWarning):
                    has_warning = True
                    self._say(str(item))
                elif isinstance(item, ReadProgress):
                    self._show(f"{item.path.name}: {item.done:,} of {item.count:,} pages or pictures")
                elif isinstance(item, Skipped):
                    self._skip(item)
                else:
                    has_document = True
                    document, pictures = item
                    self._note_parts(document)
                    if self._is_new(document, path):
                        yield replace(document, source_key=f"{self.prefix}{document.source_key}"), pictures
            if has_warning and not has_document:
                self.unread.add(key)

    def _skip(self, skipped: Skipped) -> None:
        self._skipped.setdefault(skipped.kind, []).append(skipped.key)
        self.unread.add(skipped.key)

    def _note_parts(self, document: Document) -> None:
        """Take attachments as unread until they come."""
        self.unread.discard(str(document.metadata.get("path")))
        names = document.metadata.get("attachments")
        self.unread.update(f"{document.source_key}/{name}" for name in (names if isinstance(names, list) else ()))

    def _is_new(self, document: Document, path: Path) -> bool:
        """Keep two documents with one key from replacing each other unnoticed."""
        key = f"{self.prefix}{document.source_key}"
        first_path = self.keys.get(key)
        if first_path is None:
            self.keys[key] = path
            return True
        if first_path is path:
            self._fail(f'{path}: more than one of its rows or lines has the key "{key}"; the first is taken')
        else:
            self._fail(f'{path}: its key "{key}" is that of {first_path}; use --prefix, or a corpus for each')
        return False

    def _add_one_by_one(self, batch: Sequence[Document]) -> None:
        for document in batch:
            self._add_one(document, None)

    def _add_one(self, document: Document, pictures: list[dict[str, Any]] | None) -> None:
        """Insert a document, and make these its pictures, if they are asked for."""
        key = str(document.source_key)
        try:
            self._summary += self._client.insert(document)
            if pictures is not None:
                self._client.set_pictures(key, pictures)
        except _DOCUMENT_ERRORS as error:
            self._fail(f"{self.keys[key]}: {explain(error)}")
        self._show()

    def _fail(self, message: str) -> None:
        self.errors += 1
        self._say(message)

    def _say(self, message: str) -> None:
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{clear}pg-graphrag: {printable(message)}", file=sys.stderr)

    def _show(self, doing: str = "") -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{printable(doing) or self.report()}", end="\r", file=sys.stderr, flush=True)


def _prune(connection: psycopg.Connection[Any], corpus: str, run: _Ingestion) -> None:
    """Delete the documents with the run's prefix that an earlier run read from a file that is no longer there."""
    if run.errors:
        print("pg-graphrag: nothing is pruned after errors: what could not be read may still be there", file=sys.stderr)
        return
    pruned = connection.execute(
        """
        DELETE FROM graphrag.documents d
         WHERE d.corpus = %s
           AND pg_catalog.starts_with(d.source_key, %s)
           AND d.metadata ? 'path'
           AND NOT d.source_key = ANY (%s::text[])
           AND NOT d.metadata ->> 'path' = ANY (%s::text[])
        """,
        [corpus, run.prefix, list(run.keys), list(run.unread)],
    ).rowcount
    print(f"{pruned:,} documents pruned")


def _wait(connection: psycopg.Connection[Any], corpus: str) -> None:
    """Show the progress until nothing of the corpus is pending."""
    display = Display()
    last_work = time.monotonic()
    try:
        while True:
            progress, pause = follow(connection, corpus, display)
            if progress.pending == 0:
                return
            now = time.monotonic()
            if progress.leased:
                last_work = now
            elif now - last_work > _PATIENCE:
                print("\npg-graphrag: nobody is indexing; start pg-graphrag worker", file=sys.stderr)
                last_work = now
            time.sleep(pause)
    finally:
        display.close()
