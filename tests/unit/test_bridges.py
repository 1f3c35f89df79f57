"""Which chunks stay before those to which bridges lead."""

from pg_graphrag.ground.numeric import np
from pg_graphrag.search.retrievers.bridges import OF_TITLE, _are_titled
from pg_graphrag.search.retrievers.mentions import Mentions


def test_of_a_document_that_is_named_by_its_title_the_best_chunks_stay_in_front() -> None:
    """A long one has many chunks, and would fill the answer."""
    chunks = np.array([5, 3, 9, 7, 8])
    mentions = Mentions(
        nodes=np.array([1, 1, 1, 2, 3, 3]),
        entity_ids=np.array([1, 1, 1, 2, 3, 3]),
        chunks=np.array([5, 7, 9, 3, 8, 5]),
        are_titles=np.array([True, True, True, True, True, False]),
        are_named=np.array([True, True, True, True, False, False]),
    )
    assert OF_TITLE == 2
    assert _are_titled(chunks, mentions).tolist() == [True, True, True, False, False]
