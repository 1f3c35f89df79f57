"""The command ``pg-graphrag``: it ingests, works, searches and shows the status of a database at any libpq URL."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import psycopg

from pg_graphrag import __version__
from pg_graphrag.beside.cli.arguments import (
    add_filter,
    add_mode,
    add_node_timeout,
    add_ocr,
    add_options,
    add_providers,
    flag,
    json_array,
    json_object,
    later,
    names,
    natural,
    ordered_names,
    positive,
)
from pg_graphrag.beside.cli.evaluation import add_commands
from pg_graphrag.beside.cli.open_database import explain
from pg_graphrag.beside.cli.terminal import printable
from pg_graphrag.ground.errors import GraphRAGError

_URL_HELP = """libpq URL or connection string, such as postgresql://user@host/database (default: PG_GRAPHRAG_URL, else
libpq's own environment, PGHOST, PGDATABASE, PGSERVICE, …)"""

_EPILOG = """exit status: 0 done; 1 something failed, each thing named on standard error; 2 wrong usage"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    args = _parser().parse_args(arguments)
    try:
        status: int = args.run(args)
        sys.stdout.flush()
        return status
    except (psycopg.Error, GraphRAGError) as error:
        print(printable(f"pg-graphrag: {explain(error)}"), file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of a pipe (head, less) has enough; Python must not fail again on flushing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("pg-graphrag: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pg-graphrag", description="Documents into a pg_graphrag database, and answers out of it.", epilog=_EPILOG
    )
    parser.add_argument("--version", action="version", version=f"pg-graphrag {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--url", default=os.environ.get("PG_GRAPHRAG_URL", ""), help=_URL_HELP)
    corpus = argparse.ArgumentParser(add_help=False, parents=[common])
    corpus.add_argument("--corpus", default="default", help="corpus to use (default: default)")

    ingest = commands.add_parser(
        "ingest",
        parents=[corpus],
        help="insert files as documents",
        description="""Insert files: text, Markdown, HTML, PDF, Word (docx), PowerPoint (pptx), Excel (xlsx),
        OpenDocument (odt, ods, odp), CSV, EPUB, e-mail (eml, mbox), Jupyter notebooks, reStructuredText, AsciiDoc, Org,
        LaTeX, MediaWiki, DocBook, Mallard, JATS, subtitles, and JSON Lines (one document a line: content or text, and
        optionally source_key or id, title, metadata). The key of a document is its path below PATH; a file whose key is
        there already replaces it, at no cost when nothing changed. Folders are searched for files with known endings;
        what is skipped is named.""",
    )
    ingest.add_argument("paths", nargs="+", metavar="PATH", help="file or folder")
    ingest.add_argument("--prefix", default="", help="put before every key, to keep folders with equal names apart")
    ingest.add_argument(
        "--exclude", action="append", default=[], metavar="PATTERN", help="leave out files like PATTERN (repeatable)"
    )
    ingest.add_argument(
        "--encoding", metavar="NAME", help="encoding of texts without a byte order mark (default: found by their bytes)"
    )
    add_ocr(ingest)
    flag(ingest, "--by-row", "make a document of each row of CSV files and workbooks")
    flag(ingest, "--pictures", "keep the pictures of documents too, and read files that are pictures")
    flag(ingest, "--show-skipped", "name all files that are skipped, not ten of a kind")
    flag(
        ingest,
        "--prune",
        "also delete documents of this corpus and prefix that an earlier ingest read and that are no longer there",
    )
    flag(ingest, "--wait", "then wait until a worker has indexed them")
    ingest.set_defaults(run=later("ingest", "ingest", "files"))

    worker = commands.add_parser(
        "worker",
        parents=[common],
        help="do the queued work",
        description="""Index what is queued, until told to stop: SIGTERM or SIGINT ends the running step, gives its
        jobs back and exits; a second one exits at once.""",
    )
    worker.add_argument(
        "--concurrency", type=positive, default=1, metavar="N", help="sessions that work at a time (default: 1)"
    )
    flag(worker, "--once", "exit when nothing is due or at work, showing the progress meanwhile")
    flag(worker, "--profile-time", "say after each run where the time went, in ms by step")
    flag(worker, "--log-json", "write the log as JSON, a line an event")
    worker.set_defaults(run=later("worker", "worker"))

    search = commands.add_parser("search", parents=[corpus], help="search a corpus, or several")
    search.add_argument("query", metavar="QUERY")
    search.add_argument(
        "--corpora",
        nargs="+",
        metavar="CORPUS",
        help="search these in place of --corpus, in one list; '*': all that you may read. After the query",
    )
    search.add_argument("--corpus-timeout", type=float, metavar="SECONDS", help="how long each of them may take")
    add_mode(search)
    search.add_argument("--top-k", type=int, default=10, metavar="N", help="results (default: 10)")
    add_filter(search)
    add_options(search, "search options, such as '{\"rrf_k\": 10}'")
    flag(search, "--explain", "also show why each result is there")
    flag(search, "--json", "one JSON object a line, whole texts")
    search.set_defaults(run=later("search", "search"))

    ask = commands.add_parser(
        "ask",
        parents=[corpus],
        help="ask a question",
        description="""Answer a question from the documents, by the corpus' model for answers. The answer is printed as it
        comes, then the documents that it cites.""",
    )
    ask.add_argument("question", metavar="QUESTION")
    add_mode(ask)
    ask.add_argument("--max-tokens", type=int, metavar="N", help="bound of what the model is given")
    add_filter(ask)
    ask.add_argument("--history", type=json_array, metavar="JSON", help="conversation so far: [{role, content}, …]")
    ask.add_argument(
        "--response-type", default="multiple paragraphs", metavar="TEXT", help="form of the answer, in words"
    )
    add_options(ask, "search options, such as '{\"chunk_top_k\": 5}'")
    flag(ask, "--json", "one JSON object: answer, citations, usage, context")
    flag(ask, "--estimate", "print what it would cost, at most, and ask nobody")
    ask.set_defaults(run=later("ask", "ask"))

    export = commands.add_parser(
        "export",
        parents=[corpus],
        help="write the graph to a file",
        description="""Write entities and relationships, with all their columns, as GraphML or GEXF: for Gephi, yEd,
        Cytoscape, networkx. Characters that XML has no place for become U+FFFD; lists are joined by commas.""",
    )
    export.add_argument("file", metavar="FILE", type=Path, help="*.graphml or *.gexf")
    export.set_defaults(run=later("export", "export"))

    plot = commands.add_parser(
        "plot",
        parents=[corpus],
        help="draw the graph",
        description="""Draw the most connected entities by community (by type, where no communities have been found
        yet), with the names of the most important.""",
    )
    plot.add_argument("file", metavar="FILE", type=Path, help="*.svg, *.png, *.pdf or *.html")
    plot.add_argument(
        "--max-nodes", type=positive, default=300, metavar="N", help="entities drawn, the most connected (default: 300)"
    )
    plot.add_argument(
        "--level", type=natural, default=0, metavar="N", help="level of communities, 0 (default) the coarsest"
    )
    plot.set_defaults(run=later("plot", "plot"))

    tables = commands.add_parser(
        "export-graphrag",
        parents=[corpus],
        help="write GraphRAG's parquet files",
        description="""Write the corpus as the tables that graphrag index writes (version 3), for programs that read
        those: documents, text_units, entities, relationships, covariates, communities, community_reports.""",
    )
    tables.add_argument("folder", metavar="DIR", type=Path, help="folder for the files; made where it is not there")
    tables.set_defaults(run=later("export", "export_graphrag"))

    for name, system, folder in (
        ("import-graphrag", "GraphRAG", "the output folder of graphrag index (parquet files)"),
        ("import-lightrag", "LightRAG", "LightRAG's working directory, or that of a workspace in it"),
    ):
        imports = commands.add_parser(
            name,
            parents=[corpus],
            help=f"take over an index made by {system}",
            description=f"""Take over the documents, chunks, entities and relationships (of GraphRAG: communities and
            reports too) that {system} made, and index them without asking a model. They stay as they are as long as a
            document's content does. A corpus that there is not yet is made, with the option extractor "given".""",
        )
        imports.add_argument("folder", metavar="DIR", type=Path, help=folder)
        imports.set_defaults(run=later("import_command", "import_index"), system=system)

    status = commands.add_parser("status", parents=[common], help="show what is indexed, queued and failed")
    status.add_argument("--corpus", help="only this corpus (default: all)")
    flag(status, "--watch", "show the progress until interrupted")
    flag(status, "--json", "one JSON object per corpus")
    status.set_defaults(run=later("status", "status"))

    metrics = commands.add_parser(
        "metrics",
        parents=[common],
        help="print numbers for a monitor",
        description="Print the view graphrag.metrics as OpenMetrics text. A role needs pg_monitor for it.",
    )
    metrics.set_defaults(run=later("status", "metrics"))

    nodes = commands.add_parser(
        "nodes",
        parents=[common],
        help="show the databases that have corpora between them, or bring the catalogue to them",
        description="""Show each node of the catalogue: whether it can be reached, its version, corpora, queue, sessions and, of
        standbys and subscribers, by how much it is behind; and where the catalogue is wrong. A role needs pg_monitor for it at
        each node. sync writes the catalogue of this database to all nodes that no subscription brings it to, as their owner.""",
    )
    nodes.add_argument("action", nargs="?", choices=("show", "sync"), default="show", help="(default: show)")
    flag(nodes, "--json", "one JSON object per node")
    add_node_timeout(nodes)
    nodes.set_defaults(run=later("nodes", "nodes"))

    rebalance = commands.add_parser(
        "rebalance",
        parents=[common],
        help="propose moves of corpora that make the nodes alike in size",
        description="Print the commands that would move corpora from the fullest nodes to the emptiest. It moves nothing.",
    )
    rebalance.add_argument("--dry-run", action="store_true", required=True, help="print the commands")
    flag(rebalance, "--json", "one JSON object per move")
    add_node_timeout(rebalance)
    rebalance.set_defaults(run=later("nodes", "rebalance"))

    install = commands.add_parser(
        "install",
        parents=[common],
        help="make or update the schema in a database that cannot have the extension",
        description="""Make the schema graphrag in a database with pgvector, without the extension, or bring that of an earlier
        version up to this one. PL/Python, Apache AGE and a superuser are not needed. The role of the URL then owns it. This
        command, the client and workers serve it.""",
    )
    install.set_defaults(run=later("host_command", "install"))

    copy = commands.add_parser(
        "copy",
        parents=[common],
        help="copy everything from another database into a new one, or one corpus into one that has others",
        description="""Copy all corpora, what was made of them and curations into a database whose extension or schema graphrag
        is new, in one transaction; with --corpus that corpus alone, into any. Either may have the extension or not. Both URLs
        are of owners.""",
    )
    copy.add_argument("source", metavar="SOURCE_URL", help="the database to copy from")
    copy.add_argument("--corpus", metavar="NAME", help="copy this corpus alone, with its history")
    copy.add_argument("--as", dest="new_name", metavar="NAME", help="name of the corpus in the copy")
    copy.add_argument("--history-as", dest="history_name", metavar="NAME", help="name of its history in the copy")
    add_providers(copy)
    copy.set_defaults(run=later("host_command", "copy"))

    move = commands.add_parser(
        "move",
        parents=[common],
        help="move a corpus to another database while it is read and written",
        description="""Copy a corpus to another database, bring what is written meanwhile, and switch: for some seconds at the
        end it is only read. The source says then where it is. Repeated, the command goes on where it ended. Both URLs are of
        owners; --url is the database where the corpus is.""",
    )
    move.add_argument("name", metavar="CORPUS", help="the corpus; its history moves with it")
    move.add_argument("--to", metavar="URL", required=True, help="the database to move it to")
    add_providers(move)
    move.add_argument(
        "--pause",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="a round as short as this is the last but one; default 5",
    )
    flag(move, "--undo", "take the move back, where nothing was written in the target since")
    flag(move, "--force", "with --undo: also where what was written there is lost")
    move.set_defaults(run=later("host_command", "move"))

    subscribe = commands.add_parser(
        "subscribe",
        parents=[corpus],
        help="follow tables of another server by logical replication",
        description="""Have this database (--url) follow tables of another one, the publisher, which needs nothing of
        pg_graphrag: publication, slot, the tables' definitions, subscription. Each statement is printed before it is run,
        without passwords. Run it again when the publisher's tables have changed: it does what is missing.""",
    )
    subscribe.add_argument(
        "--from", dest="publisher", required=True, metavar="PUBLISHER_URL", help="the database that has the tables"
    )
    subscribe.add_argument(
        "--tables", type=ordered_names, default=[], metavar="LIST", help="its tables, with commas between them"
    )
    subscribe.add_argument("--name", default="graphrag", help="of publication and subscription (default: graphrag)")
    subscribe.add_argument(
        "--connection", metavar="CONNINFO", help="how this database's server reaches the publisher (default: as --from)"
    )
    subscribe.add_argument(
        "--passfile",
        metavar="PATH",
        help="a file of this database's server that has the password, which is not sent then",
    )
    flag(subscribe, "--existing-slot", "take a slot that was made for this database")
    flag(subscribe, "--attach", "also attach the tables to --corpus, as printed")
    flag(subscribe, "--dry-run", "print the statements alone")
    flag(subscribe, "--undo", "drop subscription, slot and publication")
    subscribe.set_defaults(run=later("subscribe", "subscribe"))

    serve = commands.add_parser(
        "serve",
        parents=[corpus],
        help="serve pages, an HTTP API, MCP and an OpenAI-compatible API",
        description="""Serve the database to people and agents: pages at /, an HTTP API under /api, MCP at /mcp and an
        OpenAI-compatible API under /v1. Needs the extra "serve": docs/client.md.""",
    )
    serve.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    serve.add_argument("--port", type=natural, default=8765, metavar="N", help="port (default: 8765)")
    serve.add_argument(
        "--callers",
        type=Path,
        metavar="FILE",
        help="who may call, as which role (default: one token, of the URL's role)",
    )
    serve.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="the one token; made if it is not there (default: a new token each time)",
    )
    serve.add_argument(
        "--origin",
        action="append",
        default=[],
        metavar="URL",
        help="address under which a reverse proxy shows this server",
    )
    serve.add_argument(
        "--mcp-tools",
        type=names,
        default=frozenset(),
        metavar="LIST",
        help="tools of MCP that change or query at will: any of insert,curate,cypher (default: none)",
    )
    flag(serve, "--stdio", "speak MCP on standard input and output, and nothing else")
    flag(serve, "--worker", "also do the queued work, in a process beside")
    serve.add_argument("--connections", type=positive, default=8, metavar="N", help="to the database (default: 8)")
    serve.add_argument(
        "--waiting", type=positive, default=8, metavar="N", help="more of them, for calls that wait (default: 8)"
    )
    flag(serve, "--pictures", "keep the pictures of files that are uploaded")
    add_ocr(serve)
    serve.add_argument("--max-upload", type=positive, default=32, metavar="MB", help="size of an upload (default: 32)")
    serve.add_argument(
        "--rate", type=positive, default=50, metavar="N", help="requests a second of a caller (default: 50)"
    )
    flag(serve, "--new-token", "print a token and its hash for --callers, and exit")
    flag(serve, "--new-password", "ask for a password, print its hash for --callers, and exit")
    serve.set_defaults(run=later("serve", "serve", "serve"))

    call = commands.add_parser(
        "call",
        parents=[corpus],
        help="call a function of the schema",
        description="""Call a function of the schema graphrag by its name, and print what it returns as JSON. Without the
        extension this is the way to functions whose body is Python.""",
    )
    call.add_argument("function", metavar="FUNCTION", help="such as merge_entities or check")
    call.add_argument(
        "arguments", nargs="?", type=json_object, default={}, metavar="JSON", help="its arguments by name, one object"
    )
    call.set_defaults(run=later("host_command", "call"))

    add_commands(commands, corpus)
    return parser
