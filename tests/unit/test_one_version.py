"""The version is the package's; what else has to name it says the same."""

from __future__ import annotations

import json
import re

from pg_graphrag import __version__

from tests.runtime.cluster import PROJECT

EXTENSION = PROJECT / "extension"


def test_the_extension_is_of_the_packages_version() -> None:
    control = (EXTENSION / "pg_graphrag.control").read_text(encoding="utf-8")
    assert re.findall(r"^default_version = '(.*)'$", control, re.MULTILINE) == [__version__]


def test_pgxn_is_told_the_same() -> None:
    meta = json.loads((EXTENSION / "META.json").read_text(encoding="utf-8"))
    assert (meta["version"], meta["provides"]["pg_graphrag"]["version"]) == (__version__, __version__)


def test_there_is_one_way_to_this_version_and_the_changelog_begins_with_it() -> None:
    ways = [path.stem for path in (EXTENSION / "upgrade").glob("*.sql")]
    assert [way.split("--")[1] for way in ways] == [__version__]
    assert not (EXTENSION / f"released/pg_graphrag--{__version__}.sql").exists(), "it is not released"
    log = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", log, re.MULTILINE)
    assert len(versions) == log.count("\n## ")
    released = {path.name.split("--")[1].removesuffix(".sql") for path in (EXTENSION / "released").glob("*.sql")}
    assert [version for version, _ in versions] == sorted({__version__, *released}, reverse=True)
    assert [version for version, date in versions if date == "unreleased"] == [__version__]
