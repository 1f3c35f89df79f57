"""Released versions: how to create one in a test, and the corpus that each left as a dump.

``corpus-VERSION.sql.gz`` is what pg_dump of that version made of a database with all there can be: packed and unpacked
BM25, a deleted document, one that waits, one that failed, a corpus extracted by a model, an attached table, accounts;
from 0.2.0 on what freeze.py fills in. ``found-VERSION.json`` is what that version found in it:
{corpus: {mode: [[source_key, score]]}}. ``plain-VERSION.sql.gz``: from 0.3.0 on, its schema for databases
without the extension.
"""

import gzip
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.runtime.cluster import POSTGRES, PROJECT, Cluster, Database
from tests.sql.ingest import rows, value

HERE = Path(__file__).parent
# The questions of found-VERSION.json. 0.1.0 has the first three corpora.
QUESTIONS = {
    "default": "Which process writes dirty pages when a checkpoint starts?",
    "stories": "Who admired Ada Lovelace?",
    "shop": "autovacuum worker",
    "guarded": "Who fought the Kraken?",
    "imported": "Who wrote a compiler at Harvard?",
}
# Of the install scripts; an upgrade script has two versions in its name.
RELEASED = sorted(
    (path.stem.split("--")[1] for path in (PROJECT / "extension/released").glob("*.sql") if path.stem.count("--") == 1),
    key=lambda version: [int(part) for part in version.split(".")],
)

# Versions whose own package is beside this one, and serves them (pg_graphrag/server/versions.py).
SERVED = [version for version in RELEASED if (PROJECT / f"extension/released/pg_graphrag-{version}.tar.xz").exists()]

# Where released scripts look for what has moved since.
_MOVED = """
import pg_graphrag.server.corpus.corpora, pg_graphrag.operate.admin.corpus_changes
pg_graphrag.server.corpus.corpora.create = pg_graphrag.operate.admin.corpus_changes.create
"""


def skip_without_released() -> None:
    """Skip a test of released versions where they do not run."""
    if POSTGRES != "17":
        pytest.skip("released versions are for PostgreSQL 17")


def create_released(version: str) -> str:
    """The statements that create the extension as it was released.

    The script wants the package of its version. Where that is not served, this one takes itself for it.
    """
    skip_without_released()
    create = f"CREATE EXTENSION pg_graphrag VERSION '{version}' CASCADE;"
    if version in SERVED:
        return create
    prepare = f"import pg_graphrag\npg_graphrag.__version__ = '{version}'{_MOVED}"
    return f"CREATE EXTENSION IF NOT EXISTS plpython3u;\nDO LANGUAGE plpython3u $$\n{prepare}\n$$;\n" + create


def restore_released(cluster: Cluster, database: str, version: str, keys: Mapping[str, str] | None = None) -> str:
    """Restore the dump that the version made of a corpus of its own, with other `keys` of entities; return the URL."""
    released = create_released(version)  # first: it may skip the test
    url = cluster.create_database(database, "template0")
    script = gzip.decompress((HERE / f"corpus-{version}.sql.gz").read_bytes()).decode()
    for key, other in (keys or {}).items():
        script = script.replace(key, other)
    create = "CREATE EXTENSION IF NOT EXISTS pg_graphrag WITH SCHEMA graphrag;"
    assert script.count(create) == 1
    cluster.restore(database, script.replace(create, released))
    return url


def protected(db: Database) -> list[tuple[int, str, str]]:
    """Corpora with a protection: id, name, condition. 0.1.0 has none."""
    column = "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'graphrag.corpora'::regclass AND attname = 'protection')"
    query = "SELECT id, name, protection FROM graphrag.corpora WHERE protection IS NOT NULL ORDER BY id"
    return rows(db, query) if value(db, column) else []


def protect_again(db: Database) -> None:
    """Put the protection in force, as repair() of the released version does after a restore."""
    for _, corpus, condition in protected(db):
        db.execute("SELECT graphrag.protect(%s, %s)", [corpus, condition])
