"""A GraphRAG index goes in and comes out again, and is searched in between."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pg_graphrag.beside.cli import main
from pg_graphrag.beside.exchange import foreign_documents as exchange_imports
from pg_graphrag.ground.mode_names import MODES
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.ingest import refused, value, work
from tests.sql.llm import provider

parquet = pytest.importorskip("pyarrow.parquet")

TABLES = ("documents", "text_units", "entities", "relationships", "covariates", "communities", "community_reports")
Rows = dict[str, list[dict[str, Any]]]


def read(folder: Path) -> Rows:
    return {name: parquet.read_table(folder / f"{name}.parquet").to_pylist() for name in TABLES}


@pytest.fixture(scope="module")
def given(shared_data: Path) -> Path:
    return shared_data / "christmas-carol"


@pytest.fixture(scope="module")
def loaded(module_db: Database, given: Path) -> Iterator[Database]:
    """The index in corpus carol, embedded by an endpoint, for speed."""
    with Endpoint() as endpoint:
        model = {"provider": provider(module_db, endpoint), "model": "hash", "dimensions": 64}
        options = {"extractor": "given", "embedding": model}
        module_db.execute("SELECT graphrag.create_corpus('carol', %s)", [Jsonb(options)])
        with pytest.MonkeyPatch.context() as patch:
            # In many parts.
            patch.setattr(exchange_imports, "_MAX_CHARACTERS", 20_000)
            patch.setattr(exchange_imports, "_MAX_NUMBERS", 50)
            assert main(["import-graphrag", "--url", module_db.url, "--corpus", "carol", str(given)]) == 0
        yield module_db


@pytest.fixture(scope="module")
def tables(loaded: Database, given: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, Rows]:
    folder = tmp_path_factory.mktemp("graphrag") / "output"
    assert main(["export-graphrag", "--url", loaded.url, "--corpus", "carol", str(folder)]) == 0
    for name in TABLES:
        before, after = (parquet.read_schema(path / f"{name}.parquet") for path in (given, folder))
        assert after.remove_metadata() == before.remove_metadata(), name
    return read(given), read(folder)


def same(before: dict[str, Any], after: dict[str, Any], *but: str) -> None:
    """Assert that two rows agree, order in lists aside, but for numbers, ids that are made anew, and `but`."""
    left = {"human_readable_id", *but}
    for column in before.keys() - left:
        first, two = before[column], after[column]
        assert (
            (sorted(first), sorted(two)) == (sorted(two), sorted(two)) if isinstance(first, list) else first == two
        ), column


def test_documents_and_text_units_come_out_as_they_went_in(tables: tuple[Rows, Rows]) -> None:
    before, after = tables
    (document,), (exported,) = before["documents"], after["documents"]
    same(document, exported)
    units = {row["id"]: row for row in after["text_units"]}
    assert len(units) == 42
    for row in before["text_units"]:
        # Tokens are those of the corpus' tokenizer.
        same(row, units[row["id"]], "n_tokens", "entity_ids", "relationship_ids", "covariate_ids")


def test_entities_come_out_as_they_went_in(tables: tuple[Rows, Rows]) -> None:
    before, after = tables
    result = {row["title"]: row for row in after["entities"]}
    for row in before["entities"]:
        same(row, result.pop(row["title"]), "id")
    # What 84 relationships name that is no entity is one now.
    ends = {row[end] for row in before["relationships"] for end in ("source", "target")}
    assert set(result) == ends - {row["title"] for row in before["entities"]}
    assert len(result) == 32 and {row["type"] for row in result.values()} == {"UNKNOWN"}


def test_relationships_come_out_as_they_went_in(tables: tuple[Rows, Rows]) -> None:
    before, after = tables
    pairs: dict[frozenset[str], list[dict[str, Any]]] = defaultdict(list)
    for row in before["relationships"]:
        pairs[frozenset((row["source"], row["target"]))].append(row)
    result = {frozenset((row["source"], row["target"])): row for row in after["relationships"]}
    assert result.keys() == pairs.keys()
    assert len(before["relationships"]) - len(result) == 43, "pairs that are there in both directions are one here"
    for pair, rows in pairs.items():
        if len(rows) == 1:
            same(rows[0], result[pair], "id")
            continue
        assert result[pair]["weight"] == sum(row["weight"] for row in rows)
        assert set(result[pair]["text_unit_ids"]) == {unit for row in rows for unit in row["text_unit_ids"]}
        facts = {line for row in rows for line in row["description"].split("\n")}
        assert all(fact in result[pair]["description"] for fact in facts)


def test_claims_come_out_as_they_went_in(tables: tuple[Rows, Rows]) -> None:
    before, after = tables
    key = ("text_unit_id", "subject_id", "description")
    result = {tuple(row[name] for name in key): row for row in after["covariates"]}
    # 25 lines of the model's answers were no claims. Two statuses were none, one quotation was too long.
    wanted = [row for row in before["covariates"] if row["description"]]
    assert len(wanted) == len(after["covariates"]) == 381
    differences = 0
    for row in wanted:
        other = result[tuple(row[name] for name in key)]
        same(row, other, "id", "status", "source_text")
        differences += (row["status"], row["source_text"]) != (other["status"], other["source_text"])
    assert differences == 3


def test_ids_of_the_export_fit_together(tables: tuple[Rows, Rows]) -> None:
    _, after = tables
    for name in TABLES:
        assert len({row["id"] for row in after[name]}) == len(after[name])
    for name, column in (("entities", "entity_ids"), ("relationships", "relationship_ids")):
        by_unit = {(row["id"], row_id) for row in after["text_units"] for row_id in row[column]}
        assert by_unit == {(unit, row["id"]) for row in after[name] for unit in row["text_unit_ids"]}
    claims = {(row["id"], row_id) for row in after["text_units"] for row_id in row["covariate_ids"]}
    assert claims == {(row["text_unit_id"], row["id"]) for row in after["covariates"]}


def members(tables: Rows) -> dict[int, tuple[Any, ...]]:
    """Return {number of community: (its members' names, its relationships' pairs)}."""
    names = {row["id"]: row["title"] for row in tables["entities"]}
    pairs = {row["id"]: frozenset((row["source"], row["target"])) for row in tables["relationships"]}
    return {
        row["community"]: (
            frozenset(names[entity_id] for entity_id in row["entity_ids"]),
            frozenset(pairs[entity_id] for entity_id in row["relationship_ids"]),
        )
        for row in tables["communities"]
    }


@pytest.fixture(scope="module")
def numbers(tables: tuple[Rows, Rows]) -> dict[int, int]:
    """Which community came out as which, by what relates its members."""
    before, after = (members(some) for some in tables)
    result = {pairs: number for number, (_, pairs) in after.items()}
    return {-1: -1, **{number: result[pairs] for number, (_, pairs) in before.items()}}


def test_communities_come_out_as_they_went_in(tables: tuple[Rows, Rows], numbers: dict[int, int]) -> None:
    before, after = tables
    assert len(before["communities"]) == len(after["communities"]) == len(set(numbers.values())) - 1 == 122
    entities = {row["title"] for row in before["entities"]}
    was, now = members(before), members(after)
    result = {row["community"]: row for row in after["communities"]}
    for row in before["communities"]:
        other = result[numbers[row["community"]]]
        # Beside the members it lists, GraphRAG's partition has the names that only relationships have.
        assert was[row["community"]][0] == now[other["community"]][0] & entities
        assert len(other["entity_ids"]) == other["size"]
        assert (numbers[row["parent"]], {numbers[child] for child in row["children"]}) == (
            other["parent"],
            set(other["children"]),
        )
        same(row, other, "id", "community", "parent", "children", "title", "entity_ids", "relationship_ids", "size")


def referring(text: str, ids: dict[str, dict[int, Any]]) -> str:
    """Say what the numbers of a text's references stand for, without those that stand for nothing (some of the model's do)."""

    def named(bracket: re.Match[str]) -> str:
        collected = []
        for kind, given in re.findall(r"(\w+) \(([^()]*)\)", bracket[1]):
            names = dict.fromkeys(ids[kind].get(int(number)) for number in given.split(", ") if number.isdigit())
            collected += [(kind, name) for name in names if name]
        return f" {collected}" if collected else ""

    return re.sub(r" ?\[Data: ([^\[\]]*)\]", named, text)


def kinds(tables: Rows) -> dict[str, dict[int, Any]]:
    return {
        "Entities": {row["human_readable_id"]: row["title"] for row in tables["entities"]},
        "Relationships": {
            row["human_readable_id"]: "–".join(sorted((row["source"], row["target"])))
            for row in tables["relationships"]
        },
    }


def test_reports_come_out_as_they_went_in(tables: tuple[Rows, Rows], numbers: dict[int, int]) -> None:
    before, after = tables
    there, here = kinds(before), kinds(after)
    result = {row["community"]: row for row in after["community_reports"]}
    assert len(result) == 122
    for row in before["community_reports"]:
        other = result[numbers[row["community"]]]
        for column in ("title", "summary", "full_content", "rating_explanation"):
            assert referring(row[column], there) == referring(other[column], here), column
        for column in ("findings", "full_content_json"):
            first, two = (json.loads(some) if isinstance(some, str) else some for some in (row[column], other[column]))
            assert referring(json.dumps(first, sort_keys=True), there) == referring(
                json.dumps(two, sort_keys=True), here
            )
        assert (row["rank"], row["level"], row["period"]) == (other["rank"], other["level"], other["period"])


def test_findings_rest_on_what_their_references_name(loaded: Database, given: Path) -> None:
    title = "Project Gutenberg Digital Library Community"
    findings = loaded.execute(
        "SELECT r.findings FROM graphrag.community_reports r JOIN graphrag.communities c ON c.id = r.community_id"
        " WHERE r.title = %s AND c.level = 3",
        [title],
    ).fetchone()[0]
    rests_on = loaded.execute(
        "SELECT name FROM graphrag.entities WHERE id = ANY (%s)", [findings[0]["entity_ids"]]
    ).fetchall()
    assert rests_on == [("PROJECT GUTENBERG",)]
    cited = {904, 911, 947, 956, 943, 949, 961, 966, 967}
    wanted = {
        frozenset((row["source"], row["target"]))
        for row in parquet.read_table(given / "relationships.parquet").to_pylist()
        if row["human_readable_id"] in cited
    }
    pairs = loaded.execute(
        "SELECT source, target FROM graphrag.graph_edges WHERE relationship_id = ANY (%s)",
        [findings[0]["relationship_ids"]],
    ).fetchall()
    assert {frozenset(pair) for pair in pairs} == wanted
    assert findings[0]["chunk_ids"]


def partition(db: Database) -> list[Any]:
    """The communities with their reports, row by row, as they are stored."""
    return db.execute(
        "SELECT c.*, c.xmin, r.*, r.xmin, (SELECT array_agg(m.entity_id ORDER BY m.id) FROM graphrag.community_members m"
        "  WHERE m.community_id = c.id) FROM graphrag.communities c"
        "  LEFT JOIN graphrag.community_reports r ON r.community_id = c.id ORDER BY c.id"
    ).fetchall()


def test_a_refresh_keeps_what_was_imported_while_nothing_changes(loaded: Database) -> None:
    before = partition(loaded)
    done = loaded.execute("SELECT graphrag.refresh_communities('carol')").fetchone()[0]
    assert (done["clustered"], done["levels"], done["reports_due"]) == ("nothing", [23, 65, 32, 2], 0)
    assert partition(loaded) == before
    # A worker that was killed before it knew what the reports are made from leaves that to the next.
    hashes = "SELECT community_id, input_hash FROM graphrag.community_reports ORDER BY 1"
    known = loaded.execute(hashes).fetchall()
    loaded.execute("UPDATE graphrag.community_reports SET input_hash = ''")
    loaded.execute("SELECT graphrag.refresh_communities('carol')")
    assert loaded.execute(hashes).fetchall() == known and all(hash_ for _, hash_ in known)
    before = partition(loaded)
    # Looked at again, a report is left as it is.
    loaded.execute("BEGIN; UPDATE graphrag.communities SET report_due = true; COMMIT")
    work(loaded)
    assert [row[8:] for row in partition(loaded)] == [row[8:] for row in before]


@pytest.mark.parametrize("mode", MODES)
def test_the_imported_index_is_searched(loaded: Database, mode: str) -> None:
    results = loaded.execute(
        "SELECT content FROM graphrag.search('What does Fezziwig do at the ball?', 'carol', mode => %s)", [mode]
    ).fetchall()
    assert any("Fezziwig" in content for (content,) in results[:3])


def test_its_own_reports_are_found(loaded: Database) -> None:
    records = loaded.execute(
        "SELECT title FROM graphrag.search_reports('free distribution of electronic works', 'carol', top_k => 3)"
    ).fetchall()
    assert any("Gutenberg" in title for (title,) in records)
    overview = loaded.execute("SELECT DISTINCT model FROM graphrag.community_overview").fetchall()
    assert overview == [("GraphRAG",)]


def test_a_second_import_changes_nothing(loaded: Database, given: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = [row[8:-2] + row[-1:] for row in partition(loaded)]
    assert main(["import-graphrag", "--url", loaded.url, "--corpus", "carol", str(given)]) == 0
    assert capsys.readouterr().out.startswith("1 documents, 1 of them unchanged; 122 communities\n")
    assert [row[8:-2] + row[-1:] for row in partition(loaded)] == before
    assert loaded.execute("SELECT count(*) FROM graphrag.imported_communities").fetchone() == (0,)


def test_a_change_begins_from_what_was_imported(loaded: Database) -> None:
    before = {row[0]: row for row in partition(loaded)}
    loaded.execute(
        "SELECT graphrag.insert_graph('carol', %s)",
        [Jsonb({"relationships": [{"source": "FEZZIWIG", "target": "A NEW FIDDLER", "description": "He hired him."}]})],
    )
    work(loaded)
    done = loaded.execute("SELECT graphrag.refresh_communities('carol')").fetchone()[0]
    work(loaded)
    after = {row[0]: row for row in partition(loaded)}
    unchanged = [number for number in before if number in after and after[number][8:-1] == before[number][8:-1]]
    assert done["clustered"] != "all" and len(unchanged) > 0.9 * len(before)
    # Where that changes what is told, the corpus' own report takes the place of the imported one.
    (models,) = loaded.execute(
        "SELECT array_agg(DISTINCT r.model) FROM graphrag.community_members m"
        "  JOIN graphrag.community_reports r ON r.community_id = m.community_id"
        "  JOIN graphrag.entities e ON e.id = m.entity_id WHERE e.name = 'A NEW FIDDLER'"
    ).fetchone()
    assert None in models
    fiddler = loaded.execute("SELECT id FROM graphrag.entities WHERE name = 'A NEW FIDDLER'").fetchone()[0]
    assert any(fiddler in row[-1] for row in after.values())


def test_a_report_goes_with_what_it_rests_on(loaded: Database) -> None:
    """Also where the corpus' own report, of the strongest relationships, would not have told of it."""
    dangling = (
        "SELECT count(*) FROM graphrag.community_reports r, jsonb_array_elements(r.findings) AS f (finding),"
        " jsonb_array_elements_text(f.finding -> 'relationship_ids') AS t (id)"
        " WHERE NOT EXISTS (SELECT FROM graphrag.relationships x WHERE x.id = t.id::bigint)"
    )
    assert loaded.execute(dangling).fetchone() == (0,)
    source, target = loaded.execute(
        "SELECT e.source, e.target FROM graphrag.community_reports r"
        "  JOIN graphrag.communities c ON c.id = r.community_id AND c.level = 0,"
        "  jsonb_array_elements(r.findings) AS f (finding), jsonb_array_elements_text(f.finding -> 'relationship_ids') AS t (id)"
        "  JOIN graphrag.graph_edges e ON e.relationship_id = t.id::bigint"
        " WHERE r.model = 'GraphRAG' ORDER BY e.weight, e.relationship_id LIMIT 1"
    ).fetchone()
    loaded.execute("SELECT graphrag.delete_relationship(%s, %s, 'carol')", [source, target])
    assert loaded.execute(dangling).fetchone() != (0,)
    loaded.execute("SELECT graphrag.refresh_communities('carol')")
    work(loaded)
    assert loaded.execute(dangling).fetchone() == (0,)


def test_what_cannot_be_imported_or_exported_is_refused(
    module_db: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import-graphrag", "--url", module_db.url, "--corpus", "x", str(tmp_path)]) == 1
    assert "has no text_units.parquet" in capsys.readouterr().err
    module_db.execute("SELECT graphrag.create_corpus('concepts')")
    assert main(["import-lightrag", "--url", module_db.url, "--corpus", "concepts", str(tmp_path)]) == 1
    assert "finds concepts by itself" in capsys.readouterr().err
    assert main(["export-graphrag", "--url", module_db.url, "--corpus", "nope", str(tmp_path / "out")]) == 1
    assert 'corpus "nope" does not exist' in capsys.readouterr().err


def test_communities_come_in_parts(db: Database) -> None:
    db.execute("SELECT graphrag.create_corpus('c', '{\"extractor\": \"given\"}')")
    add = "SELECT graphrag.import_communities('c', %s, %s, more => %s)"
    first = Jsonb([{"number": 1, "level": 0, "entities": ["Ann"]}])
    below = Jsonb([{"number": 2, "level": 1, "parent": 1, "entities": ["Ann"]}])
    diag = refused(db, add, first, None, True)
    assert (diag.sqlstate, "transaction" in str(diag.message_hint)) == ("55000", True)
    db.execute(add.encode(), [first, None, False])
    assert refused(db, add, first, None, True).sqlstate == "22023", "number 1 is there"
    assert refused(db, add, below, None, False).sqlstate == "22023", "its parent is of another call"
    db.execute(add.encode(), [below, None, True])
    db.execute(add.encode(), [Jsonb([]), Jsonb({"Entities": {"5": "Ann"}}), True])
    parts = "SELECT array_agg(part ORDER BY part) FROM graphrag.imported_communities"
    assert value(db, parts) == [1, 2, 3]
    db.execute(add.encode(), [first, None, False])
    assert value(db, parts) == [1]
