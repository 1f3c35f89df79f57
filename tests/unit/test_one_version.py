"""The version is the package's; what else has to name it says the same."""

import json
import re
from itertools import pairwise

from pg_graphrag import __version__

from tests.runtime.cluster import PROJECT
from tests.upgrade.released import RELEASED

EXTENSION = PROJECT / "extension"


def test_the_extension_is_of_the_packages_version() -> None:
    control = (EXTENSION / "pg_graphrag.control").read_text(encoding="utf-8")
    assert re.findall(r"^default_version = '(.*)'$", control, re.MULTILINE) == [__version__]


def test_pgxn_is_told_the_same() -> None:
    meta = json.loads((EXTENSION / "META.json").read_text(encoding="utf-8"))
    assert (meta["version"], meta["provides"]["pg_graphrag"]["version"]) == (__version__, __version__)


def test_upgrade_scripts_lead_to_it_from_the_version_before_and_there_from_each_with_the_second_host() -> None:
    ways = dict(path.stem.split("--") for path in (EXTENSION / "upgrade").glob("*--*.sql"))
    released = [*RELEASED, __version__]
    # Released scripts of the extension have what theirs said; databases without the extension run them one after the other.
    first = min(released.index("0.3.0"), len(released) - 2)
    assert ways == dict(pairwise(released[first:]))


def test_the_changelog_dates_every_version_but_perhaps_this_one() -> None:
    log = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", log, re.MULTILINE)
    assert len(versions) == log.count("\n## ")
    assert [version for version, _ in reversed(versions)] == [*RELEASED, __version__]
    assert "unreleased" not in [date for _, date in versions[1:]]
