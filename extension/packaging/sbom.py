"""The bill of materials: what pg_graphrag carries, with hashes and licences, as CycloneDX 1.6 (``make sbom``).

Python packages of docker/requirements.lock, models of docker/models.lock, libraries of the pages, and word lists. The same inputs
give the same bytes. Licences are those of licenses.toml.

Usage: python -m extension.packaging.sbom FILE, with cyclonedx-python-lib, which validates what is written.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import runpy
import sys
import tomllib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
LICENSES = Path(__file__).with_name("licenses.toml")
PACKAGE = PROJECT / "python/pg_graphrag"
VENDOR = PACKAGE / "beside/serve/static/vendor"
# Of docker/requirements.lock: what it says that it was made of.
_EXTRAS = re.compile(r"--extra=([\w,-]+)")
_PIN = re.compile(r"^([\w.-]+)==(\S+) *\\$(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_SHA256 = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_BY = re.compile(r"^    #(?: via)? +([\w.-]+)", re.MULTILINE)
_SELF = "pg-graphrag"

Component = dict[str, Any]


def bill(epoch: int) -> dict[str, Any]:
    """Return the bill as of a time, in seconds of Unix.

    Raises
    ------
    ValueError
        Where something has no licence, licenses.toml names what is not carried, or a file of the pages is of no library.
    """
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = re.search(r'^__version__ = "(.*)"$', (PACKAGE / "__init__.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert version
    licenses = tomllib.loads(LICENSES.read_text(encoding="utf-8"))
    requirements, dependencies = _requirements(project, licenses["requirements"])
    components = [*requirements, *_models(licenses["models"]), *pages(licenses["pages"]), *_files(licenses["files"])]
    itself = {
        "type": "application",
        "bom-ref": _SELF,
        "name": _SELF,
        "version": version[1],
        "description": project["description"],
        "licenses": [{"expression": project["license"]}],
        "purl": f"pkg:pypi/{_SELF}@{version[1]}",
    }
    content = {
        "metadata": {"timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(), "component": itself},
        "components": components,
        "dependencies": dependencies,
    }
    identity = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        **content,
    }


def _requirements(project: dict[str, Any], licenses: dict[str, str]) -> tuple[list[Component], list[Component]]:
    lock = (PROJECT / "docker/requirements.lock").read_text(encoding="utf-8")
    extras = _EXTRAS.search(lock)
    assert extras
    pins = {match[1]: (match[2], match[3]) for match in _PIN.finditer(lock)}
    _agree("docker/requirements.lock", pins, licenses)
    # Who asks for whom; and by which extras a package comes.
    asks: dict[str, set[str]] = {name: set() for name in pins}
    for name, (_, rest) in pins.items():
        for other in _BY.findall(rest.replace("_", "-")):
            if other in asks:
                asks[other].add(name)
    comes_by: dict[str, set[str]] = {name: set() for name in pins}
    requirements = {"": project["dependencies"]} | {
        extra: project["optional-dependencies"][extra] for extra in extras[1].split(",")
    }
    first = {
        extra: {name for text in texts for name in _names(text)} & pins.keys() for extra, texts in requirements.items()
    }
    for extra, due in first.items():
        while due:
            for name in due:
                comes_by[name].add(extra)
            due = {name for asker in due for name in asks[asker] if extra not in comes_by[name]}
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            # What every installation has, and what comes with extras.
            "scope": "required" if "" in comes_by[name] else "optional",
            "hashes": [{"alg": "SHA-256", "content": content} for content in sorted(_SHA256.findall(rest))],
            "licenses": [{"expression": licenses[name]}],
            "purl": f"pkg:pypi/{name}@{version}",
            "properties": [{"name": "pg_graphrag:extra", "value": extra} for extra in sorted(comes_by[name] - {""})],
        }
        for name, (version, rest) in sorted(pins.items())
    ]
    reference = {component["name"]: component["bom-ref"] for component in components}
    edges = {_SELF: set().union(*first.values())} | {reference[name]: others for name, others in asks.items()}
    return components, [
        {"ref": asker, "dependsOn": sorted(reference[name] for name in others)}
        for asker, others in sorted(edges.items())
    ]


def _names(requirement: str) -> Iterator[str]:
    """Yield the package of a requirement, and what its own extra is a package of (psycopg[binary])."""
    match = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", requirement)
    assert match
    yield match[1].lower()
    yield from (f"{match[1].lower()}-{extra}" for extra in (match[2] or "").split(",") if extra)


def _models(licenses: dict[str, dict[str, str]]) -> Iterator[Component]:
    """Yield the models, with the files that docker/fetch-models writes, and the first wheel that has them."""
    fetch = runpy.run_path(str(PROJECT / "docker/fetch-models"))
    lock = (PROJECT / "docker/models.lock").read_text(encoding="utf-8")
    # Of two of a name the first.
    carriers = dict(reversed(re.findall(r"^([\w-]+)==(\S+ --hash=sha256:\S+)$", lock, re.MULTILINE)))
    files = (fetch["FILES"] | fetch["CARDS"]).items()
    _agree("docker/fetch-models", {target.partition("/")[0] for target, _ in files}, licenses)
    for name, model in sorted(licenses.items()):
        yield {
            "type": "data" if name == "tiktoken" else "machine-learning-model",
            "bom-ref": f"model:{name}",
            "supplier": {"name": model["by"]},
            "name": f"models/{name}",
            "licenses": [{"expression": model["license"]}],
            "properties": [
                {"name": "pg_graphrag:carrier", "value": f"{model['carrier']}=={carriers[model['carrier']]}"}
            ],
            "components": [
                {"type": "file", "name": f"models/{target}", "hashes": [{"alg": "SHA-256", "content": digest}]}
                for target, digest in sorted(files)
                if target.startswith(f"{name}/")
            ],
        }


def pages(licenses: dict[str, str]) -> Iterator[Component]:
    """Yield the libraries of the pages, as the table of their folder names them."""
    table = re.findall(
        r"^\| (`.*?) \| ([\w@/-]+)[^|]* \| ([\d.]+) \|", (VENDOR / "README.md").read_text(), re.MULTILINE
    )
    _agree("vendor/README.md", {package for _, package, _ in table}, licenses)
    left = {
        path for path in VENDOR.rglob("*") if path.is_file() and not path.name.endswith(("README.md", ".LICENSE.txt"))
    }
    for names, package, version in sorted(table, key=lambda row: row[1]):
        paths = [VENDOR / name for name in re.findall(r"`([\w./-]+)`", names) if not name.startswith("iterate")]
        files = sorted(file for path in paths for file in ([path] if path.is_file() else path.iterdir()))
        left -= set(files)
        purl = f"pkg:npm/{package.replace('@', '%40')}@{version}"
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": package,
            "version": version,
            "licenses": [{"expression": licenses[package]}],
            "purl": purl,
            "components": [_file(path) for path in files],
        }
    if left:
        raise ValueError(f"the table of {VENDOR / 'README.md'} has no library of {sorted(path.name for path in left)}")


def _files(licenses: dict[str, str]) -> Iterator[Component]:
    for name, license in sorted(licenses.items()):
        yield {**_file(PACKAGE / name), "bom-ref": f"file:{name}", "licenses": [{"expression": license}]}


def _file(path: Path) -> Component:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {
        "type": "file",
        "name": path.relative_to(PACKAGE).as_posix(),
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def _agree(source: str, carried: Any, licensed: Any) -> None:
    if lacking := sorted(set(carried) - set(licensed)):
        raise ValueError(f"{LICENSES.name} has no licence of {', '.join(lacking)}, which {source} names")
    if gone := sorted(set(licensed) - set(carried)):
        raise ValueError(f"{LICENSES.name} has licences of {', '.join(gone)}, which {source} does not name")


def write(file: Path) -> None:
    """Write the bill as of SOURCE_DATE_EPOCH, where it is valid by its schema."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = json.dumps(bill(int(os.environ["SOURCE_DATE_EPOCH"])), indent=2) + "\n"
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"the bill is not valid by its schema: {error}")
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
