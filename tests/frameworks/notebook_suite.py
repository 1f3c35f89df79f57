"""Results and the progress bar in a real notebook."""

from __future__ import annotations

from typing import Any

import nbformat
from nbclient import NotebookClient

CELLS = (
    """
from threading import Timer
from pg_graphrag import GraphRAG
rag = GraphRAG({url!r}, {corpus!r})
_ = rag.insert({{"source_key": "a", "content": "Ada Lovelace met Charles Babbage."}})
""",
    """
Timer(1.0, lambda: GraphRAG({url!r}).process_jobs()).start()
_ = rag.wait_until_indexed(60, show_progress=True)
""",
    "rag.search('Babbage')",
    "rag.search('Babbage').to_pandas()",
)


def test_a_notebook_shows_a_bar_and_tables(url: str, corpus: str) -> None:
    cells = [nbformat.v4.new_code_cell(cell.format(url=url, corpus=corpus)) for cell in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=120).execute()
    html: list[list[Any]] = [[output.data["text/html"] for output in cell.outputs] for cell in notebook.cells]
    assert html[0] == []
    # A bar is redrawn in its place.
    assert html[1] == ['<progress value="1" max="1"></progress> 1 of 1 documents are indexed']
    assert "<td>Ada Lovelace met Charles Babbage.</td>" in html[2][0]
    assert "dataframe" in html[3][0]
