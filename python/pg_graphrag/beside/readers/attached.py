"""Files within a file (attachments of e-mail and PDF, files inserted into Office files), each read as a document."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from pg_graphrag.beside.readers.source import Item, Source
from pg_graphrag.ground.document import Document

MAX_ATTACHMENTS = 1000
# Files within files; deeper ones are left out, and said so.
_MAX_DEPTH = 5
_MAX_NAMES = 10
_WITHIN = re.compile(r"(?i)\.(?:eml|pdf|docx|docm|pptx|pptm|xlsx|xlsm)/")


def read_attachments(source: Source, attachments: Sequence[tuple[str, bytes]], date: datetime | None) -> Iterator[Item]:
    """Yield the documents of (file name, bytes), with the key ``<key>/<file name>`` and the date of the containing file."""
    # It knows the readers that use this.
    from pg_graphrag.beside.readers import kind_of, read_source

    skipped: list[str] = []
    for name, data in attachments[:MAX_ATTACHMENTS]:
        kind = kind_of(name, source.options.reads_pictures)
        if kind is None or len(_WITHIN.findall(source.key)) >= _MAX_DEPTH:
            skipped.append(name)
            continue
        part = Source(source.path, f"{source.key}/{name}", name, source.options, data)
        for item in read_source(part, kind):
            if isinstance(item, Document):
                metadata = {**item.metadata, "attachment_of": source.key}
                item = replace(item, metadata=metadata, valid_from=item.valid_from or date)
            yield item
    if skipped:
        more = f" and {len(skipped) - _MAX_NAMES:,} more" if len(skipped) > _MAX_NAMES else ""
        yield source.warning(f"attachments of kinds that are not read: {', '.join(skipped[:_MAX_NAMES])}{more}")
    if len(attachments) > MAX_ATTACHMENTS:
        yield source.warning(f"{len(attachments) - MAX_ATTACHMENTS:,} more attachments are left out")


def own_names(attachments: Sequence[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Yield attachments with names that are no paths, each but once: "plan.txt", "plan (2).txt"."""
    names: dict[str, int] = {}
    for name, data in attachments:
        name = re.sub(r"[\s/\\]+", " ", name).strip() or "attachment"
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            stem, dot, suffix = name.rpartition(".")
            name = f"{stem} ({names[name]}){dot}{suffix}" if dot else f"{name} ({names[name]})"
        yield name, data
