"""Tokens of the reports of each level, put together without a model, beside the source, and sentences that come twice.

    python -m bench reports [--documents 200] [--sets musique jsquad]

C0 is the top level, as in GraphRAG's paper: a level's tokens are those of what reads the corpus at that level, so communities
without children there count with the level above. Corpora are made anew and stay, named reports_SET.
"""

import argparse
from collections import Counter
from pathlib import Path

from pg_graphrag import GraphRAG

from bench.data.corpora import lines

SETS = ("musique", "lihua-world", "jsquad", "drcd", "cmrc")


def load(rag: GraphRAG, data: Path, name: str, count: int) -> None:
    """Make a corpus of the first documents of a set, with its communities and reports."""
    with rag._connection() as connection:
        if connection.execute("SELECT FROM graphrag.corpora WHERE name = %s", [rag.corpus]).rowcount:
            rag.drop_corpus()
    rag.create_corpus(cypher=False)
    rag.insert(
        {"source_key": document["id"], "title": document.get("title"), "content": document["text"]}
        for document in lines(data / name / "docs.jsonl")[:count]
    )
    rag.process_jobs()


# What level n reads: its communities, and those above that end there.
TOKENS = """
SELECT n.level, count(*), sum(r.token_count)
  FROM (SELECT DISTINCT level FROM graphrag.communities WHERE corpus_id = $1) n
  JOIN graphrag.communities c ON c.corpus_id = $1 AND (c.level = n.level
       OR c.level < n.level AND NOT EXISTS (SELECT FROM graphrag.communities k WHERE k.parent_id = c.id))
  JOIN graphrag.community_reports r ON r.community_id = c.id
 GROUP BY n.level ORDER BY n.level
""".replace("$1", "%(corpus)s")


def main() -> None:
    """Load, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--documents", type=int, default=200, help="of each set (200)")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    given = parser.parse_args()
    print("| set | source, tokens | reports | tokens by level, share of the source | sentences twice in a report |")
    print("|---|---|---|---|---|")
    for name in given.sets:
        with GraphRAG(given.url, f"reports_{name}") as rag:
            load(rag, given.data, name, given.documents)
            with rag._connection() as connection:
                ((corpus,),) = connection.execute("SELECT id FROM graphrag.corpora WHERE name = %s", [rag.corpus])
                values = {"corpus": corpus}
                ((source,),) = connection.execute(
                    "SELECT sum(token_count) FROM graphrag.chunks WHERE corpus_id = %(corpus)s", values
                )
                levels = connection.execute(TOKENS.encode(), values).fetchall()
                contents = connection.execute(
                    "SELECT content FROM graphrag.community_reports WHERE corpus_id = %(corpus)s", values
                ).fetchall()
        twice = sum(repeated(content) for (content,) in contents)
        cells = ", ".join(f"C{level} {tokens:,} ({tokens / source:.0%}, {count})" for level, count, tokens in levels)
        print(f"| {name} | {source:,} | {len(contents)} | {cells} | {twice} |", flush=True)


def repeated(content: str) -> int:
    """Count the lines of a report, heads apart, that stand in it before."""
    counts = Counter(line for line in content.splitlines() if line and not line.startswith("#"))
    return sum(count - 1 for count in counts.values())


if __name__ == "__main__":
    main()
