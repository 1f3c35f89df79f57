"""GitHub's workflows: what GitHub would say of them, and whether they try what docs/versions.md promises."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests import support
from tests.runtime.cluster import PROJECT
from tests.runtime.wheels import unpacked

SCHEMAS = "check-jsonschema==0.39.0", "14ce5c94871c551268ea948ffe21e9f1464dc48fb20bf9a4c13deeaaf756cf9b"
WORKFLOWS = sorted((PROJECT / ".github/workflows").glob("*.yml"))
ACTIONS = sorted((PROJECT / ".github/actions").glob("*/action.yml"))


def read(path: Path) -> Any:
    # YAML 1.1 takes the key "on" for true, GitHub does not.
    return yaml.load(path.read_text(encoding="utf-8").replace("\non:", '\n"on":'), yaml.BaseLoader)


def typed(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8").replace("\non:", '\n"on":'))


RELEASE = read(PROJECT / ".github/workflows/release.yml")["jobs"]


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_github_knows_every_field(path: Path) -> None:
    name = "workflows" if path in WORKFLOWS else "actions"
    schema = unpacked(*SCHEMAS) / f"check_jsonschema/builtin_schemas/vendor/github-{name}.json"
    jsonschema.Draft7Validator(json.loads(schema.read_text(encoding="utf-8"))).validate(typed(path))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_job_may_read_alone_and_ends(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert int(job["timeout-minutes"]) <= 240, name
        assert name == "publish" or "permissions" not in job
        # What starts with "!" never ends a script of `bash -e`.
        assert not [step for step in job["steps"] if re.search(r"^\s*! ", step.get("run", ""), re.MULTILINE)], name


def test_nothing_is_published_before_all_else_has_passed_and_somebody_has_agreed() -> None:
    publish = RELEASE["publish"]
    assert set(publish["needs"]) == RELEASE.keys() - {"publish"}
    assert publish["environment"] == "release" and publish["if"] == "startsWith(github.ref, 'refs/tags/v')"


def test_a_release_tries_what_the_manual_promises() -> None:
    page = support.PAGE.read_text(encoding="utf-8")
    promised = dict(re.findall(r"^\| (PostgreSQL|Python of the client) \| (.*) \|$", page, re.MULTILINE))
    servers, beside = (re.findall(r"\b1\d\b", part) for part in promised["PostgreSQL"].split(";"))
    pythons = re.findall(r"3\.\d+", promised["Python of the client"])
    classifiers = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    assert pythons == [found[1] for line in classifiers if (found := re.search(r":: (3\.\d+)$", line))]
    assert RELEASE["server"]["strategy"]["matrix"]["postgres"] == servers
    assert RELEASE["beside"]["strategy"]["matrix"]["postgres"] == beside
    assert RELEASE["client"]["strategy"]["matrix"]["python"] == pythons
    names = [f"postgresql-{version}" for version in servers]
    names += [f"beside-{version}" for version in beside] + [f"python-{version}" for version in pythons]
    assert list(support.COMBINATIONS) == names


def test_the_table_of_what_was_tried_has_each_combination_and_none_that_failed() -> None:
    tried = support.rows()
    assert {row[1].strip("`"): what for what, row in tried.items()} == {
        name: combination.what for name, combination in support.COMBINATIONS.items()
    }
    for what, (*_, last) in tried.items():
        assert last == "not yet" or re.fullmatch(r"\d{4}-\d\d-\d\d: \d+ passed(, \d+ skipped)?", last), what


def test_an_outcome_is_written_into_its_row_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "versions.md"
    copy.write_text(support.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(support, "PAGE", copy)
    before = support.rows()
    support.write("PostgreSQL 18, beside it", "3 passed, 1 failed")
    after = support.rows()
    assert [what for what in before if before[what] != after[what]] in ([], ["PostgreSQL 18, beside it"])
    assert after["PostgreSQL 18, beside it"][2].endswith(": 3 passed, 1 failed")
