"""The version is the package's; what else has to name it says the same."""

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


def test_one_upgrade_script_leads_to_it() -> None:
    assert [path.stem.split("--")[1] for path in (EXTENSION / "upgrade").glob("*.sql")] == [__version__]


def test_the_changelog_dates_every_version_but_perhaps_this_one() -> None:
    log = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", log, re.MULTILINE)
    assert len(versions) == log.count("\n## ")
    released = {path.name.split("--")[1].removesuffix(".sql") for path in (EXTENSION / "released").glob("*.sql")}
    assert {version for version, _ in versions} == {__version__, *released}
    assert versions[0][0] == __version__
    assert "unreleased" not in [date for _, date in versions[1:]]
