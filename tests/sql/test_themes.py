"""GraphRAG's modes: from entities out, and from the reports down; asked, mapped and reduced."""

import json
import re
from typing import Any

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.asking import as_reader, ask, calls, provider, warnings
from tests.sql.ingest import STORIES, index_all, keys, put_all, refused, rows, search, searched_corpus, value, work
from tests.sql.themes import SEA, asked, context, counted, points, task

THEME = "What do the documents say about computing machines?"


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    return index_all(module_db, searched_corpus(module_db, communities=True), STORIES | SEA)


def reply(messages: Messages) -> str:
    """Points of the reports on what is asked, nothing of the others; an answer that cites what it is given."""
    last = str(messages[-1]["content"])
    if task(messages) == "map":
        heading = re.search(r"^## .*(?:Enigma|Bletchley).*?(\[\d+\])", last, re.M)
        points: list[Any] = [{"description": f"Enigma was broken {heading[1]}.", "score": 80}] if heading else []
        return json.dumps({"points": [*points, {"description": "Nothing.", "score": 0}, {"score": 5}, "junk"]})
    number = re.search(r"\[(\d+)\]", last.partition("<documents-")[2])
    return f"Machines were broken [{number[1] if number else 9}]."


REPLY = reply


def test_graph_local_finds_the_chunks_of_the_entities_and_says_through_which(module_db: Database, corpus: str) -> None:
    results = search(module_db, "Who harpooned the Kraken?", corpus, "graph_local")
    assert results[0]["source_key"] == "land"
    why = results[0]["explain"]["graph_local"]
    assert {"entity", "relationship", "rank", "score"} <= set(why)
    names = rows(module_db, "SELECT key FROM graphrag.entities WHERE id = %s", why["entity"]["id"])
    assert names[0][0] in SEA["land"].lower()


def test_graph_local_context_has_reports_relationships_and_text_within_their_shares(
    module_db: Database, corpus: str
) -> None:
    statement = "SELECT graphrag.context(%s, %s, 'graph_local', %s)"
    whole = value(module_db, statement, "What did Captain Nemo fight?", corpus, 2000)
    assert all(whole[part] for part in ("reports", "entities", "relationships", "chunks", "references"))
    assert whole["prompt"].startswith("Reports:\n# ")
    assert whole["reports"][0]["content"] in whole["prompt"]
    small = value(module_db, statement, "What did Captain Nemo fight?", corpus, 200)
    assert small["tokens"] <= 200
    assert sum(len(report["content"]) for report in small["reports"]) < len(small["prompt"]) / 2 or not small["reports"]


def test_graph_global_takes_turns_among_the_themes_and_names_the_report(module_db: Database, corpus: str) -> None:
    results = search(module_db, "Nautilus and Enigma", corpus, "graph_global")
    first = [row["explain"]["graph_global"] for row in results[:2]]
    assert first[0]["community"] != first[1]["community"]
    assert {"nemo", "land"} & set(keys(results[:2])) and {"turing", "enigma"} & set(keys(results[:2]))
    titles = dict(rows(module_db, "SELECT community_id, title FROM graphrag.community_reports"))
    assert all(item["report"] == titles[item["community"]] for item in first)
    assert [row["score"] for row in results] == sorted((row["score"] for row in results), reverse=True)


def test_a_level_is_a_cut_that_covers_everything(module_db: Database, themed: str) -> None:
    every = "SELECT count(DISTINCT m.entity_id) FROM graphrag.community_members m JOIN graphrag.corpora c ON c.id = m.corpus_id"
    clustered = value(module_db, every + " WHERE c.name = %s", themed)
    for level in range(3):
        _, _, _, context = ask(module_db, THEME, themed, mode="graph_global", options={"level": level})
        assert context["map"]["level"] == level
        cut = (
            " AND (o.level = %s OR o.level < %s AND NOT EXISTS"
            " (SELECT FROM graphrag.communities x WHERE x.parent_id = o.id))"
        )
        join = " JOIN graphrag.communities o ON o.id = m.community_id WHERE c.name = %s"
        assert value(module_db, every + join + cut, themed, level, level) == clustered
        number = "SELECT count(DISTINCT o.id) FROM graphrag.community_members m JOIN graphrag.corpora c ON c.id = m.corpus_id"
        assert context["map"]["reports"] == value(module_db, number + join + cut, themed, level, level)


def test_graph_global_answers_from_the_points_and_cites_documents(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    module_endpoint.forget()
    answer, citations, usage, context = ask(module_db, "Which machines were broken?", themed, mode="graph_global")
    assert [point["score"] for point in context["points"]] == [80] * len(context["points"]) and context["points"]
    assert "(80) Enigma was broken [" in context["prompt"]
    assert context["map"]["failed"] == 0 and context["map"]["batches"] >= 1
    assert usage["calls"] == context["map"]["batches"] + 1 == len(module_endpoint.requests)
    assert usage["tokens_in"] > 0 and usage["cost"] > 0
    (cited,) = citations
    assert cited["source_key"] in {"turing", "enigma"} and f"[{cited['number']}]" in answer
    # The same again is known.
    again = ask(module_db, "Which machines were broken?", themed, mode="graph_global")
    assert (again[0], again[2]["calls"]) == (answer, 0)


def test_dynamic_rates_from_the_coarsest_level_down_and_reads_what_is_relevant(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    parents = dict(
        rows(
            module_db,
            "SELECT o.community_id, o.parent_id FROM graphrag.community_overview o WHERE o.corpus = %s",
            themed,
        )
    )
    content = dict(rows(module_db, "SELECT community_id, content FROM graphrag.community_reports"))
    tops = [community for community, parent in parents.items() if parent is None]
    machines = {community for community in parents if "Enigma" in content[community]}
    parts = [community for community, parent in parents.items() if parent in machines and community not in tops]
    assert parts and set(tops) - machines

    def rating(messages: Messages) -> str:
        if task(messages) == "rate":
            return json.dumps({"rating": 3 if "Enigma" in str(messages[-1]["content"]) else 0})
        return reply(messages)

    module_endpoint.reply(rating)
    module_endpoint.forget()
    answer, _, usage, context = ask(
        module_db, THEME, themed, mode="graph_global", options={"dynamic": True, "level": 1}
    )
    rated = counted(module_endpoint)["rate"]
    assert context["map"]["dynamic"] == {"rated": len(tops) + len(parts), "failed": 0} and rated == len(tops) + len(
        parts
    )
    # Relevant parts stand for the whole; what is not relevant is neither read nor gone into.
    chosen = [community for community in machines if not any(parents[part] == community for part in machines)]
    assert context["map"]["reports"] == len(chosen)
    (mapped,) = asked(module_endpoint, "map")
    assert "Enigma" in mapped.text and not re.search("Nautilus|Kraken", mapped.text)
    assert usage["calls"] == len(module_endpoint.requests) == rated + 2 and answer.startswith("Machines")
    # At level 0 nothing is gone into.
    flat = ask(module_db, THEME, themed, mode="graph_global", options={"dynamic": True, "level": 0})
    assert flat[3]["map"]["dynamic"]["rated"] == len(tops) and flat[3]["map"]["level"] == 0
    # Where nothing is relevant, nobody is asked for an answer.
    module_endpoint.forget()
    module_endpoint.reply(lambda messages: '{"rating": 0}')
    nothing = ask(module_db, "What of whales?", themed, mode="graph_global", options={"dynamic": True})
    assert nothing[0] == "The documents do not answer this question."
    assert counted(module_endpoint) == {"rate": len(tops)}

    # A report that is not rated is read.
    def unsure_of_ships(messages: Messages) -> str:
        return "I cannot say." if task(messages) == "rate" and "Nautilus" in str(messages) else rating(messages)

    module_endpoint.reply(unsure_of_ships)
    with warnings(module_db) as warned:
        unsure = ask(module_db, "What of machines?", themed, mode="graph_global", options={"dynamic": True, "level": 0})
    assert unsure[3]["map"]["dynamic"]["failed"] >= 1 and "taken for relevant" in str(warned)
    assert unsure[3]["map"]["reports"] == sum(
        bool(re.search("Enigma|Nautilus", content[community])) for community in tops
    )
    module_endpoint.reply(reply)


def test_dynamic_goes_into_the_near_themes_alone_where_no_model_is_asked(module_db: Database, corpus: str) -> None:
    parents = dict(rows(module_db, "SELECT id, parent_id FROM graphrag.communities"))
    query = "Who harpooned the Kraken?"
    every = search(module_db, query, corpus, "graph_global", options={"level": 0})
    near = search(module_db, query, corpus, "graph_global", options={"dynamic": True, "level": 0})
    assert set(keys(near)) == {"nemo", "land"} < set(keys(every))
    deeper = {
        row["explain"]["graph_global"]["community"]
        for row in search(module_db, query, corpus, "graph_global", options={"dynamic": True, "level": 3})
    }
    # A part stands for what it is a part of.
    assert deeper and not deeper & {parents[community] for community in deeper}
    parts = value(
        module_db, "SELECT graphrag.context(%s, %s, 'graph_global', options => '{\"dynamic\": true}')", query, corpus
    )
    assert parts["reports"] and all(
        "Kraken" in community["content"] or "Nemo" in community["content"] for community in parts["reports"]
    )


def test_dynamic_in_ask_without_a_model_for_relevance_is_an_error(module_db: Database, themed: str) -> None:
    dynamic = "'graph_global', options => '{\"dynamic\": true}')"
    llm = value(module_db, "SELECT options #> '{llm,roles,answer}' FROM graphrag.corpora WHERE name = %s", themed)
    bare = searched_corpus(module_db, llm={"roles": {"answer": llm}})
    assert refused(module_db, f"SELECT graphrag.ask('x', %s, {dynamic}", bare).sqlstate == "55000"


def test_a_batch_that_fails_is_said_and_the_others_answer(
    module_db: Database, themed: str, module_endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Reports as long as a batch make several of them.
    module_db.execute(
        "UPDATE graphrag.community_reports SET summary = repeat('long words ', 5500)"
        " WHERE corpus_id = (SELECT id FROM graphrag.corpora WHERE name = %s)",
        [themed],
    )
    module_endpoint.misbehave("bad_request", times=1)
    module_endpoint.forget()
    module_endpoint.latency = 0.2
    with warnings(module_db) as messages:
        _, _, _, context = ask(module_db, "Were they really broken?", themed, mode="graph_global", options={"level": 0})
    assert context["map"]["failed"] == 1 < context["map"]["batches"]
    module_endpoint.latency = 0
    # Side by side: nobody waits for one batch after another.
    assert module_endpoint.peak == context["map"]["batches"]
    assert any(f"1 of {context['map']['batches']} batches were not read" in text for text in messages)
    module_endpoint.misbehave("bad_request", times=1000)
    with pytest.raises(psycopg.Error):
        ask(module_db, "Were they never broken?", themed, mode="graph_global", options={"level": 0})
    module_endpoint.behave()


def test_readers_ask_and_search_themes(module_db: Database, themed: str, corpus: str) -> None:
    with as_reader(module_db):
        assert search(module_db, "Kraken", corpus, "graph_global")
        assert search(module_db, "Kraken", corpus, "graph_local")
        assert ask(module_db, "Which machines?", themed, mode="graph_global")[0]
    assert ("answer", False) in calls(module_db, themed)


def test_a_corpus_without_reports_says_so(module_db: Database) -> None:
    name = index_all(module_db, searched_corpus(module_db), STORIES)
    with warnings(module_db) as messages:
        assert search(module_db, "Enigma", name, "graph_global") == []
    assert "no reports on communities yet" in str(messages)
    # From the entities out it works without them.
    assert search(module_db, "Enigma", name, "graph_local")


def test_a_question_whose_language_the_graph_does_not_know_is_answered_from_chunks(
    module_db: Database, module_endpoint: Endpoint
) -> None:
    model = {"provider": provider(module_db, module_endpoint, timeout=5), "model": "m"}
    name = searched_corpus(module_db, llm={"roles": {"answer": model}})
    put_all(module_db, name, {"fares": "지하철 요금이 백오십 원 올랐다."})
    work(module_db)
    _, citations, _, context = ask(module_db, "요금이 얼마나 올랐어요?", name, mode="graph_global")
    assert [chunk["source_key"] for chunk in context["references"]] == ["fares"]
    assert [citation["source_key"] for citation in citations] == ["fares"]
    assert context["explain"]["instead"].startswith("hybrid")


def test_a_context_of_nothing_says_why(module_db: Database, corpus: str) -> None:
    for mode, reason in (("bm25", "no text has a word of the query"), ("local", "no entity or relationship was found")):
        with warnings(module_db) as messages:
            context = value(module_db, "SELECT graphrag.context('swimming slowly', %s, %s)", corpus, mode)
        assert context["explain"]["empty"].startswith(reason)
        assert reason in str(messages)


def test_the_other_global_is_named_in_a_hint(module_db: Database, corpus: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        search(module_db, "Enigma", corpus, "global", options={"level": 1})
    assert "GraphRAG's global search is graph_global" in str(refused.value.diag.message_hint)


WORLDS = SEA | {
    "bakery": "Marta Klein bakes rye bread in Lindau. Marta Klein sells the rye bread to the Hotel Adler in Lindau.",
    "mill": "Otto Braun grinds rye flour for Marta Klein. Otto Braun owns the Falken Mill in Lindau.",
    "tax": "Senator Ruth Okafor drafted the Harbour Tax Bill. The Harbour Tax Bill raises fees at the Port of Lagos.",
    "port": "The Port of Lagos pays Senator Ruth Okafor nothing. Chike Obi fought the Harbour Tax Bill in Lagos.",
    "moth": "The hawk moth Agrius feeds on orchids in Madagascar. Dr Lalao Rasoa counts the hawk moth Agrius there.",
    "orchid": "Dr Lalao Rasoa grows orchids in Madagascar. The comet orchid of Madagascar waits for the hawk moth Agrius.",
}
PAIRS = [("nemo", "land"), ("bakery", "mill"), ("tax", "port"), ("moth", "orchid")]


@pytest.fixture(scope="module")
def worlds(module_db: Database) -> str:
    return index_all(module_db, searched_corpus(module_db, communities=True), WORLDS)


@pytest.mark.parametrize("mode", ["graph_global", "drift", "lazy"])
@pytest.mark.parametrize(
    "question",
    ["What are the main themes?", "Summarize everything.", "Give an overview of this collection", "So what?"],
)
def test_a_question_about_the_whole_gets_every_theme(
    module_db: Database, worlds: str, mode: str, question: str
) -> None:
    context = value(module_db, "SELECT graphrag.context(%s, %s, %s)", question, worlds, mode)
    names = [("Nemo", "Kraken"), ("Klein", "Braun"), ("Okafor", "Lagos"), ("Rasoa", "Agrius")]
    text = context["prompt"] if mode == "lazy" else "\n".join(report["title"] for report in context["reports"])
    assert [pair for pair in names if not any(name in text for name in pair)] == []
    if mode != "drift":
        best = keys(search(module_db, question, worlds, mode, top_k=4))
        assert sorted(PAIRS.index(pair) for key in best for pair in PAIRS if key in pair) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "question",
    ["What is this collection about?", "Welche Themen behandeln diese Dokumente?", "What topics do the texts cover?"],
)
def test_a_text_that_has_its_words_is_not_all_that_such_a_question_gets(module_db: Database, question: str) -> None:
    name = searched_corpus(module_db, communities=True)
    own = {
        "stamps": "Otto Braun keeps a collection of stamps: topics, texts and Dokumente zu Themen are in the collection."
    }
    index_all(module_db, name, WORLDS | own)
    best = keys(search(module_db, question, name, "lazy", top_k=5))
    assert {PAIRS.index(pair) for key in best for pair in PAIRS if key in pair} >= {0, 1, 2, 3} - {
        1 if "stamps" in best else 9
    }
    target = keys(search(module_db, "What is the collection of stamps about?", name, "lazy", top_k=1))
    assert target == ["stamps"]


# Of these no entity is in a community: there is one name, or none.
ALONE = {"rain": "It rained and rained.", "harvest": "Nothing grew there, so they left.", "reeve": "Reeve slept."}


@pytest.fixture(scope="module")
def alone(module_db: Database, module_endpoint: Endpoint) -> str:
    model = {"provider": provider(module_db, module_endpoint), "model": "m"}
    name = searched_corpus(module_db, communities=True, llm={"roles": {"answer": model}})
    put_all(module_db, name, WORLDS | ALONE)
    work(module_db)
    outside = """SELECT d.source_key FROM graphrag.documents d WHERE d.corpus = %s AND NOT EXISTS (
        SELECT FROM graphrag.entity_mentions x JOIN graphrag.community_members m USING (entity_id) WHERE x.document_id = d.id)"""
    assert {key for (key,) in rows(module_db, outside, name)} == set(ALONE)
    return name


@pytest.mark.parametrize("mode", ["graph_global", "drift"])
@pytest.mark.parametrize("function", ["search", "context"])
def test_an_option_that_leaves_all_reports_out_is_named_beside_texts_in_no_community(
    module_db: Database, alone: str, mode: str, function: str
) -> None:
    for rank in (0, 10):
        with warnings(module_db) as messages:
            rows(
                module_db,
                f"SELECT * FROM graphrag.{function}('What are the main themes?', %s, %s, options => %s)",
                alone,
                mode,
                json.dumps({"min_community_rank": rank}),
            )
        of_option = [message for message in messages if "min_community_rank" in message]
        assert of_option == ["no report is rated at least min_community_rank, 10"] * (rank > 0)


@pytest.mark.parametrize("mode", ["graph_global", "drift"])
def test_a_corpus_without_reports_has_none_that_an_option_leaves_out(module_db: Database, mode: str) -> None:
    name = index_all(module_db, searched_corpus(module_db, communities=True), ALONE)
    with warnings(module_db) as messages:
        rows(
            module_db,
            "SELECT * FROM graphrag.search('What are the main themes?', %s, %s, options => '{\"min_community_rank\": 10}')",
            name,
            mode,
        )
    assert not [message for message in messages if "min_community_rank" in message]


@pytest.mark.parametrize("mode", ["graph_global", "drift"])
def test_documents_in_no_community_are_found_and_read(
    module_db: Database, alone: str, module_endpoint: Endpoint, mode: str
) -> None:
    question = "What are the main themes?"
    found = search(module_db, question, alone, mode, top_k=50)
    assert set(ALONE) <= set(keys(found))
    lone = [row["explain"][mode] for row in found if row["source_key"] in ALONE]
    assert all(why["community"] is None for why in lone)
    parts = context(module_db, question, alone, mode)
    assert set(ALONE) <= {chunk["source_key"] for chunk in parts["references"]}
    assert mode == "drift" or set(ALONE) == {chunk["source_key"] for chunk in parts["references"]}
    for text in ALONE.values():
        assert text in parts["prompt"]
    # A question with a target gets those that are near.
    target = keys(search(module_db, "Who grinds rye flour for Marta Klein in Lindau?", alone, mode, top_k=3))
    assert not set(ALONE) & set(target)
    (target, *_) = keys(search(module_db, "Where did Reeve sleep?", alone, mode, top_k=1))
    assert target == "reeve"

    def cites_what_rained(messages: Messages) -> str:
        said = re.search(r"\[(\d+)\]\n\nIt rained", str(messages[-1]["content"]))
        point = f"It rained [{said[1]}]." if said else ""
        if task(messages) == "map":
            return points((point, 90 if point else 0))
        if task(messages) == "primer":
            return json.dumps({"answer": point, "score": 90 if point else 0, "follow_ups": []})
        return "It rained [" + re.findall(r"It rained \[(\d+)\]", str(messages[-1]["content"]))[0] + "]."

    module_endpoint.reply(cites_what_rained)
    module_endpoint.forget()
    options = {"n_depth": 0} if mode == "drift" else {}
    answer, citations, _, parts = ask(module_db, question, alone, mode=mode, options=options)
    module_endpoint.reply(reply)
    assert answer.startswith("It rained") and [citation["source_key"] for citation in citations] == ["rain"]
    assert parts["map" if mode == "graph_global" else "drift"]["outside"] == {"read": len(ALONE), "left": 0}


# A file says how fast a model was seen to read: a hundred tokens a second.
SLOW = """DO LANGUAGE plpython3u $$
from pg_graphrag.llm.endpoints.providers import ModelHabits, load_provider
from pg_graphrag.server import database
db = database(plpy)
ModelHabits(db, load_provider(db, "{}"), "m").read(1000, 11)
$$"""


@pytest.mark.slow
def test_texts_in_no_community_are_one_batch_more_and_the_nearest_are_read(
    module_db: Database, module_endpoint: Endpoint
) -> None:
    model = {"provider": provider(module_db, module_endpoint), "model": "m"}
    name = searched_corpus(module_db, communities=True, llm={"roles": {"answer": model}})
    many = {
        f"day {day}": f"On day {day} it {'rained' if day % 7 else 'snowed'} and " * 12 + "stopped." for day in range(60)
    }
    index_all(module_db, name, SEA | many)
    # As many texts as fit what such a model reads.
    module_db.execute(SLOW.format(model["provider"]).encode())
    module_endpoint.reply(points(("So [1].", 9)))
    module_endpoint.forget()
    outside = ask(module_db, "What are the main themes?", name, mode="graph_global")[3]["map"]["outside"]
    module_endpoint.reply(reply)
    assert outside["read"] + outside["left"] == 60 and 10 < outside["read"] < 60
    assert 1 <= counted(module_endpoint)["map"] <= 2
    estimate = "SELECT calls FROM graphrag.estimate_ask('What are the main themes?', %s, 'graph_global')"
    assert value(module_db, estimate, name) >= counted(module_endpoint)["map"]


@pytest.mark.parametrize("mode", ["graph_global", "drift", "lazy"])
def test_a_question_with_a_target_gets_what_is_near(module_db: Database, worlds: str, mode: str) -> None:
    question = "Who grinds rye flour for Marta Klein in Lindau?"
    best = keys(search(module_db, question, worlds, mode, top_k=1 if mode == "graph_global" else 2))
    assert set(best) <= {"mill", "bakery"}
    reports = value(module_db, "SELECT graphrag.context(%s, %s, %s)", question, worlds, mode)["reports"]
    assert mode == "lazy" or "Klein" in reports[0]["title"]


@pytest.mark.parametrize(
    ("question", "pair"),
    [
        ("Whatever became of Otto Braun in that valley when the flood had gone?", {"mill", "bakery"}),
        ("How did Captain Nemo feel towards sailors, their wives and their employers?", {"nemo", "land"}),
        ("In which year was Chike Obi born, and was he ever married?", {"tax", "port"}),
    ],
)
def test_a_question_that_names_something_in_other_words_has_a_target(
    module_db: Database, worlds: str, question: str, pair: set[str]
) -> None:
    assert set(keys(search(module_db, question, worlds, "lazy", top_k=2))) <= pair


@pytest.mark.sample(1)
@pytest.mark.parametrize(("mode", "read"), [("graph_global", "map"), ("drift", "primer"), ("lazy", "map")])
def test_a_model_that_reads_slowly_is_given_what_it_reads_in_time(
    module_db: Database, module_endpoint: Endpoint, mode: str, read: str
) -> None:
    module_endpoint.forget()
    # What comes in one piece says nothing of how fast it was read.
    said = {"relevant_passages": json.dumps({"relevant": [1, 2, 3]}), "refine": "x"}
    module_endpoint.reply(lambda messages: said.get(task(messages)) or reply(messages))
    model = {"provider": provider(module_db, module_endpoint), "model": "m"}
    name = searched_corpus(
        module_db,
        communities={"max_cluster_size": 5},
        llm={"roles": {"answer": model, "relevance": model | {"model": "quick"}}},
    )
    towns = "Arendal Bergen Drammen Elverum Fredrikstad Hamar Kragerø Larvik Molde Narvik Porsgrunn Sandnes Skien Vadsø".split()
    more = {
        town: f"Mayor Olsen of {town} built the {town} Bridge. The {town} Bridge crosses the {town} River. The {town} River feeds"
        f" the {town} Mill, where flour was ground for the {town} Bakery and the {town} Hospital. "
        + f"The bridge of {town} is of stone. "
        * 9
        for town in towns
    }
    index_all(module_db, name, more)
    options = {"answer_timeout": 20} | ({"primer_folds": 1} if mode == "drift" else {})
    sizes = []
    for question in ("Which bridges cross rivers?", "Which bridges cross the rivers?"):
        module_endpoint.forget()
        ask(module_db, question, name, mode=mode, options=options)
        prompts = [str(request.messages[-1]["content"]) for request in asked(module_endpoint, read)]
        sizes.append(max(map(len, prompts)))
        module_db.execute(SLOW.format(model["provider"]).encode())
    module_endpoint.reply(REPLY)
    # Eight of ten seconds, less what the instructions take.
    assert sizes[1] < 2600 < sizes[0], sizes


@pytest.mark.parametrize("mode", ["graph_global", "drift", "lazy"])
def test_a_point_longer_than_what_a_slow_model_reads_is_given_without_asking_again(
    module_db: Database, module_endpoint: Endpoint, mode: str
) -> None:
    def long_points(messages: Messages) -> str:
        number = re.search(r"\[\d+\]", str(messages[-1]["content"]))
        point = f"Captain Nemo sailed {number[0] if number else ''}. " + " ".join(
            f"On day {day} he saw {day * 37} birds." for day in range(150)
        )
        if task(messages) == "map":
            return points((point, 90))
        if task(messages) == "primer":
            return json.dumps({"answer": point, "score": 90, "follow_ups": []})
        return {"refine": "x", "expand": "x"}.get(task(messages)) or f"He sailed {number[0] if number else ''}."

    model = {"provider": provider(module_db, module_endpoint), "model": "m"}
    name = index_all(module_db, searched_corpus(module_db, communities=True, llm={"roles": {"answer": model}}), SEA)
    module_db.execute(SLOW.format(model["provider"]).encode())
    module_endpoint.reply(long_points)
    module_endpoint.forget()
    options = {"answer_timeout": 20} | ({"n_depth": 0, "primer_folds": 1} if mode == "drift" else {})
    answer, citations, _, parts = ask(module_db, "Who sailed the Nautilus?", name, mode=mode, options=options)
    module_endpoint.reply(reply)
    assert answer.startswith("He sailed") and citations and len(parts["points"]) == 1
    assert "least" not in parts and not parts.get("explain")
    assert max(counted(module_endpoint).values()) == 1
