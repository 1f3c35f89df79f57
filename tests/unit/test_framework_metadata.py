"""What a search says of a document beside the document's own metadata."""

from pg_graphrag.integrations import with_own


def test_nothing_of_a_documents_own_is_overwritten() -> None:
    metadata = {"score": 9, "graphrag_score": 8, "title": "A", "document_id": 1}
    assert with_own(metadata, score=0.5, title="A", document_id=2, source_key="a") == metadata | {
        "graphrag_graphrag_score": 0.5,
        "graphrag_document_id": 2,
        "source_key": "a",
    }


def test_a_score_that_is_no_number_has_a_place() -> None:
    assert [*with_own({"title": "A"}, score=float("nan"))] == ["title", "score"]
