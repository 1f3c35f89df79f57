"""Rows are looked up by their keys, whatever statistics say of attached documents."""

from pg_graphrag.search.graph_view.row_references import _REFERENCES

from tests.runtime.cluster import Database
from tests.sql.ingest import new_corpus, rows


def test_statistics_from_before_rows_came_bring_no_scan_of_all_rows(db: Database) -> None:
    name = new_corpus(db)
    db.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, content)"
        " SELECT %s, n::text, 'Text ' || n FROM generate_series(1, 3000) n",
        [name],
    )
    db.execute("ANALYZE graphrag.documents")
    for mode in ("force_generic_plan", "force_custom_plan"):
        db.execute(f"SET plan_cache_mode = {mode}".encode())
        db.execute(f"PREPARE looked_up (int8[], text, int4) AS {_REFERENCES}".encode())
        plan = "\n".join(line for (line,) in rows(db, "EXPLAIN EXECUTE looked_up ('{1,2,3}', 'default', 1)"))
        db.execute("DEALLOCATE looked_up; RESET plan_cache_mode")
        assert "documents_attached_id_idx" not in plan, plan
        assert "Seq Scan on documents" not in plan, plan
