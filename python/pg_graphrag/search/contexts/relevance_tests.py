"""Relevance tests by a model: whether a passage helps to answer a question, with several passages in one request."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.llm.asking.models import REPETITION, ModelFault
from pg_graphrag.search.contexts.points import Sources
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.retrievers import passages


@dataclass
class ModelTests:
    """Tests by the model of the role `relevance`, `at_once` passages in a request.

    A passage that a reply says nothing of, or of a request whose reply cannot be read, is tested again alone: a model that
    cannot judge several at once can judge one. Where all requests of a round fail otherwise, no further one is made.
    """

    at_once: int
    tests: int = 0
    requests: int = 0
    faults: list[ModelFault] = field(default_factory=list)
    fails: bool = False

    def test(self, question: str, query: Query, chunks: Sequence[int], spare: int) -> tuple[list[bool | None], int]:
        """Test the passages of chunks that are nearest `query` for whether they help with `question`.

        Returns whether each does (None: the test failed), and how many requests there were more than chunks: at most `spare`.
        """
        sources = Sources()
        sources.add(query, chunks)
        nearest = passages.nearest(query, sorted(sources.chunks))
        texts = {chunk: _headed(sources.chunks[chunk], nearest[chunk]) for chunk in chunks if chunk in nearest}
        self.tests += len(chunks)
        room = len(chunks) + spare
        verdicts: dict[int, bool] = {}
        faults: dict[int, ModelFault] = {}
        sent = 0
        for at_once in dict.fromkeys((self.at_once, 1)):
            # Only what a reply left open is asked again; an endpoint that fails is left alone.
            left = [chunk for chunk in texts if chunk not in verdicts and _is_unread(faults.get(chunk))]
            groups = [left[start : start + at_once] for start in range(0, len(left), at_once)][: room - sent]
            if not groups or self.fails:
                break
            arguments: list[dict[str, Any]]
            if at_once == 1:
                arguments = [{"question": question, "text": texts[chunk]} for (chunk,) in groups]
            else:
                arguments = [{"question": question, "texts": [texts[chunk] for chunk in group]} for group in groups]
            task = "relevant" if at_once == 1 else "relevant_passages"
            outcomes, usage = query.models.ask_all(task, arguments, retries=room - sent - len(groups))
            query.usage.append(usage)
            sent += len(groups) + usage.get("sent_again", 0)
            self.fails = not any(_is_unread(outcome.fault) for outcome in outcomes)
            for group, outcome in zip(groups, outcomes, strict=True):
                faults |= dict.fromkeys(group, outcome.fault) if outcome.fault is not None else {}
                replies = {1: outcome.value} if isinstance(outcome.value, bool) else outcome.value or {}
                verdicts |= {group[number - 1]: helps for number, helps in replies.items()}
        self.requests += sent
        self.faults += [fault for chunk, fault in faults.items() if chunk not in verdicts]
        return [verdicts.get(chunk) for chunk in chunks], max(0, sent - len(chunks))


def _is_unread(fault: ModelFault | None) -> bool:
    """Whether a reply said nothing of a passage, or could not be read: not one that repeats itself, or came too late."""
    return fault is None or (fault.kind == "item" and fault.reason != REPETITION)


def _headed(chunk: dict[str, Any], passage: passages.Passage) -> str:
    """Return a passage under the title of its document, which often says whom "she" means."""
    return f"{chunk['title']}: {passage.sentences}" if chunk["title"] else passage.sentences
