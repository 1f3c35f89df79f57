"""The commands of evaluation: evaluate, compare, feedback, make-questions, answer-questions and judge."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pg_graphrag.beside.cli.arguments import add_mode, add_options, flag, later, positive

if TYPE_CHECKING:
    from pg_graphrag.beside.judging.client_model import Model


def add_commands(commands: Any, corpus: argparse.ArgumentParser) -> None:
    """Add the commands to the parser's; `corpus` has the options --url and --corpus."""
    evaluate = commands.add_parser(
        "evaluate",
        parents=[corpus],
        help="measure modes of search on questions with known evidence",
        description="""Print recall, nDCG, MRR and latency of modes on questions with known evidence, their differences to
        a baseline, and draw a chart. FILE is JSON Lines, a question a line: {"question": …, "evidence": [source_key, …]}, and
        optionally id, low_level_keywords, high_level_keywords, and for the mode path query_entities, answer_types.""",
    )
    evaluate.add_argument("file", type=Path, metavar="FILE")
    evaluate.add_argument(
        "--modes",
        nargs="+",
        default=["naive", "bm25", "hybrid"],
        metavar="MODE",
        help="modes, or names of variants (default: naive bm25 hybrid)",
    )
    _add_depths(evaluate)
    evaluate.add_argument("--baseline", metavar="MODE", help="what others are compared to (default: the first mode)")
    add_options(
        evaluate,
        """seed, per_question, and variants, such as '{"variants": {"paper": {"mode": "hybrid", "profile": "paper"}}}'""",
    )
    evaluate.add_argument(
        "--chart", type=Path, metavar="PATH", help="SVG, PNG or PDF to write (default: FILE with the ending .svg)"
    )
    flag(evaluate, "--no-chart", "write none; needs no matplotlib")
    _add_table_as_json(evaluate)
    evaluate.set_defaults(run=later("evaluate", "evaluate", "evaluation"))

    compare = commands.add_parser(
        "compare",
        parents=[corpus],
        help="measure two corpora on the same questions",
        description="""Print the metrics of this corpus and of OTHER, which has the same documents and was indexed with other
        options, with the differences, the questions that changed, and what each cost. FILE: as for evaluate; by default the
        questions are those that verdicts have grown into.""",
    )
    compare.add_argument("other", metavar="OTHER", help="the other corpus; graphrag.clone_corpus() makes it")
    compare.add_argument("file", type=Path, nargs="?", metavar="FILE")
    compare.add_argument("--modes", nargs="+", default=["hybrid"], metavar="MODE", help="modes (default: hybrid)")
    _add_depths(compare)
    add_options(compare, "seed, variants")
    _add_table_as_json(compare)
    compare.set_defaults(run=later("compare", "compare"))

    feedback = commands.add_parser(
        "feedback",
        parents=[corpus],
        help="say whether an answer was good",
        description="""Note a verdict on the answer to QUESTION. Verdicts grow into questions with known evidence, for
        compare and evaluate.""",
    )
    feedback.add_argument("question", metavar="QUESTION")
    feedback.add_argument("verdict", choices=("good", "bad"))
    feedback.add_argument(
        "--evidence", nargs="+", metavar="KEY", help="source keys of the documents that answer the question"
    )
    feedback.add_argument("--author", default="", metavar="NAME", help="who says so (default: the role)")
    feedback.add_argument("--comment", metavar="TEXT", help="a remark")
    feedback.set_defaults(run=later("ask", "feedback"))

    answer = commands.add_parser(
        "answer-questions",
        parents=[corpus],
        help="answer questions, for a judge",
        description="""Ask every question of FILE (JSON Lines with question, and optionally id) and print JSON Lines of id,
        question, answer. What cannot be answered is named on standard error and left out.""",
    )
    answer.add_argument("file", type=Path, metavar="FILE")
    add_mode(answer)
    add_options(answer, "search options")
    answer.set_defaults(run=later("answer_questions", "answer_questions"))

    model = argparse.ArgumentParser(add_help=False)
    model.add_argument("--model", required=True, metavar="NAME", help="the model, as its endpoint calls it")
    model.add_argument(
        "--base-url", metavar="URL", help="an OpenAI-compatible endpoint (default: OPENAI_BASE_URL, or OpenAI's)"
    )
    model.add_argument(
        "--api-key-env",
        metavar="NAME",
        help="environment variable that holds the key (default: OPENAI_API_KEY, if the host is OPENAI_BASE_URL's or OpenAI's)",
    )
    model.add_argument("--temperature", type=float, metavar="T", help="default: the model's own")
    model.add_argument("--concurrency", type=positive, default=8, metavar="N", help="requests at a time (default: 8)")
    model.add_argument(
        "--memory", type=Path, metavar="FILE", help="keep replies here, and ask only what is not in it: to go on later"
    )

    judge = commands.add_parser(
        "judge",
        parents=[model],
        help="have a model judge answers, pair by pair",
        description="""Compare the answers of FILE with those of BASELINE (JSON Lines with id, question, answer; the name of a
        system is that of its file) on comprehensiveness, diversity, empowerment, directness, relevance and overall. Every pair
        is judged in both orders. Before that, answers are judged against themselves: what the judge prefers there is the place,
        not the answer.""",
    )
    judge.add_argument("baseline", type=Path, metavar="BASELINE")
    judge.add_argument("files", type=Path, nargs="+", metavar="FILE")
    judge.add_argument("--trials", type=positive, default=3, metavar="N", help="times each is judged (default: 3)")
    judge.add_argument(
        "--same", type=int, default=25, metavar="N", help="answers judged against themselves (default: 25; 0: none)"
    )
    flag(judge, "--json", "one JSON object instead of tables")
    judge.set_defaults(run=later("judge", "judge", "evaluation", ("numpy", "openai", "scipy")))

    make = commands.add_parser(
        "make-questions",
        parents=[corpus, model],
        help="have a model make questions about a corpus",
        description="""Print JSON Lines of questions. From a description of the corpus: its users, their tasks, and questions
        that need the corpus as a whole (class activity). From its documents: questions on one document each, with their
        evidence, for evaluate (class local), and on the whole (class global).""",
    )
    for name in ("users", "tasks", "questions"):
        make.add_argument(f"--{name}", type=int, default=5, metavar="N", help=f"{name} (default: 5; 0: no activities)")
    for name in ("local", "global"):
        make.add_argument(f"--{name}", type=int, default=0, metavar="N", help=f"{name} questions (default: 0)")
    make.add_argument(
        "--description", metavar="TEXT", help="what the corpus is (default: the model says, from a sample of documents)"
    )
    make.add_argument("--seed", type=int, default=0, metavar="N", help="draws other documents (default: 0)")
    make.set_defaults(run=later("make_questions", "make_questions", "evaluation", ("openai",)))


def _add_depths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--k", nargs="+", type=positive, default=[5, 10], metavar="N", help="depths (default: 5 10)")


def _add_table_as_json(parser: argparse.ArgumentParser) -> None:
    flag(parser, "--json", "one JSON object a line instead of the table")


def model_of(args: argparse.Namespace) -> "Model":
    """Return the model that the options of a command name."""
    from pg_graphrag.beside.judging.client_model import Model

    return Model(args.model, args.base_url, args.api_key_env, args.temperature, args.concurrency, memory=args.memory)
