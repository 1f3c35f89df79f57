"""The bill of materials names all that we carry, each with its licence."""

import email
import json
import os
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from extension.packaging import sbom
from tests.runtime.cluster import PROJECT

EPOCH = 1796055146


@pytest.fixture(scope="module")
def components() -> dict[str, dict[str, Any]]:
    return {component["name"]: component for component in sbom.bill(EPOCH)["components"]}


def test_all_that_is_pinned_is_in_it_with_hashes_and_a_licence(components: dict[str, dict[str, Any]]) -> None:
    lock = (PROJECT / "docker/requirements.lock").read_text(encoding="utf-8")
    pinned = re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)
    assert len(pinned) > 70 and set(pinned) <= components.keys()
    assert all(components[name]["hashes"] for name in pinned)
    assert all(component["licenses"][0]["expression"] for component in components.values())


def test_it_is_the_same_each_time() -> None:
    first, again = (json.dumps(sbom.bill(EPOCH)) for _ in range(2))
    assert first == again
    assert sbom.bill(EPOCH)["serialNumber"] != sbom.bill(EPOCH + 1)["serialNumber"]


@pytest.mark.parametrize(
    "table, name", [("requirements", "numpy"), ("models", "multilingual-e5-small"), ("pages", "katex")]
)
def test_what_is_carried_without_a_licence_is_an_error(
    table: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = sbom.LICENSES.read_text(encoding="utf-8")
    assert f"\n{name} = " in text.partition(f"[{table}]")[2]
    monkeypatch.setattr(sbom, "LICENSES", tmp_path / "licenses.toml")
    sbom.LICENSES.write_text(re.sub(rf"^{name} = .*\n", "", text, flags=re.MULTILINE), encoding="utf-8")
    with pytest.raises(ValueError, match=f"no licence of {name}"):
        sbom.bill(EPOCH)
    sbom.LICENSES.write_text(text.replace(f"[{table}]", f'[{table}]\nno-such-thing = "MIT"'), encoding="utf-8")
    with pytest.raises((ValueError, TypeError)):
        sbom.bill(EPOCH)


def test_a_file_of_the_pages_without_a_library_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    licenses = tomllib.loads(sbom.LICENSES.read_text(encoding="utf-8"))["pages"]
    shutil.copytree(sbom.VENDOR, tmp_path / "vendor")
    monkeypatch.setattr(sbom, "PACKAGE", tmp_path)
    monkeypatch.setattr(sbom, "VENDOR", tmp_path / "vendor")
    assert {component["name"] for component in sbom.pages(licenses)} == licenses.keys()
    (tmp_path / "vendor/left-pad.js").touch()
    with pytest.raises(ValueError, match=r"no library of \['left-pad.js'\]"):
        list(sbom.pages(licenses))


def test_what_is_under_the_gpl_comes_with_an_extra_of_its_own(components: dict[str, dict[str, Any]]) -> None:
    gpl = {name: component for name, component in components.items() if re.search(r"(?<!L)GPL", expression(component))}
    extras = {name: [entry["value"] for entry in component["properties"]] for name, component in gpl.items()}
    assert extras == {"pglast": ["sql"]}


def test_the_wheel_states_the_licences_of_what_is_in_it(components: dict[str, dict[str, Any]]) -> None:
    """Those of the pages and files; the first is its own."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    inside = [
        one for name, one in components.items() if "/vendor/" in str(one.get("components")) or one["type"] == "file"
    ]
    stated = {part for component in inside for part in expression(component).split(" AND ")}
    assert set(project["license"].split(" AND ")) == {"PostgreSQL", *stated}


def test_licences_are_those_that_the_installed_packages_state(components: dict[str, dict[str, Any]]) -> None:
    home = Path(os.environ.get("PG_GRAPHRAG_HOME", "/usr/lib/pg_graphrag"))
    stated = {}
    for path in home.glob("venv/lib/python3.*/site-packages/*.dist-info/METADATA"):
        metadata = email.message_from_string(path.read_text(encoding="utf-8"))
        name = re.sub(r"[-_.]+", "-", str(metadata["Name"])).lower()
        if name in components and metadata["License-Expression"]:
            stated[name] = metadata["License-Expression"]
    # Under plain pytest, where no server was built.
    if not stated:
        pytest.skip(f"no packages in {home}: set PG_GRAPHRAG_HOME, as ./test does")
    assert {name: expression(components[name]) for name in stated} == stated


def expression(component: dict[str, Any]) -> str:
    return str(component["licenses"][0]["expression"])
