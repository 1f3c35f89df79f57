"""What the client makes of documents before they are sent, and that its two faces are alike."""

import inspect
from typing import Any

import pytest
from pg_graphrag.beside.client import AsyncGraphRAG, Document, GraphRAG
from pg_graphrag.ground import document as module
from pg_graphrag.ground.document import as_documents, batches
from pg_graphrag.ground.errors import GraphRAGError


def test_one_or_many_of_any_kind_become_documents() -> None:
    assert list(as_documents("x")) == [Document("x")]
    assert list(as_documents({"content": "x", "source_key": "k"})) == [Document("x", "k")]
    assert list(as_documents(Document("x"))) == [Document("x")]
    many = ["x", {"content": "y"}, Document("z")]
    assert list(as_documents(iter(many))) == [Document("x"), Document("y"), Document("z")]
    assert list(as_documents([])) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": "x"}, "a document has no field 'text'"),
        ({"title": "x"}, "a document without content"),
        ({"content": None}, "a document without content"),
    ],
)
def test_a_wrong_mapping_is_an_error_with_a_hint(given: dict[str, str], message: str) -> None:
    with pytest.raises(GraphRAGError, match=message) as error:
        list(as_documents(given))
    assert error.value.hint


class Frame(list[str]):
    """As pandas has it: its items are the names of its columns."""

    columns = ("content",)


@pytest.mark.parametrize("given", [None, b"text", 5, Frame(["content"]), [b"text"], [["text"]]], ids=repr)
def test_what_is_no_document_is_an_error_with_a_hint(given: Any) -> None:
    with pytest.raises(GraphRAGError, match="a document cannot be of type") as error:
        list(as_documents(given))
    assert "to_dict" in str(error.value.hint)


def test_batches_are_bounded_by_count_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_DOCUMENTS", 3)
    monkeypatch.setattr(module, "MAX_BATCH_CHARACTERS", 10)
    sizes = [[len(item.content) for item in batch] for batch in batches(Document("x" * n) for n in (1, 2, 3, 4, 9, 20))]
    assert sizes == [[1, 2, 3], [4, 9], [20]]


def test_a_batch_has_each_key_once_and_the_last_one_wins() -> None:
    given = [
        Document("old", "k"),
        Document("same"),
        Document("same"),
        Document("new", "k"),
        Document("same", title="T"),
    ]
    assert list(batches(given)) == [[Document("new", "k"), Document("same"), Document("same", title="T")]]


def test_the_async_client_has_the_calls_of_the_blocking_one() -> None:
    def calls(cls: type) -> dict[str, str]:
        members = {name: member for name, member in vars(cls).items() if inspect.isfunction(member) and name[0] != "_"}
        signatures = {name: str(inspect.signature(member)) for name, member in members.items()}
        return {name: text.replace("AsyncIterator", "Iterator") for name, text in signatures.items()}

    assert calls(AsyncGraphRAG) == calls(GraphRAG)
