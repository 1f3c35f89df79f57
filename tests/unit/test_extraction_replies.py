"""A model's answer is complete, or a fault of the item: never a crash, never silently less than it said."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pg_graphrag.index.extraction.extraction_replies import MAX_ITEMS, parse_extraction, salvage
from pg_graphrag.index.extraction.records import Extraction
from pg_graphrag.llm.endpoints.faults import ItemFault

GOOD: dict[str, Any] = {
    "entities": [
        {"name": "Ada Lovelace", "type": "Person", "description": "Ada wrote notes."},
        {"name": "Engine", "type": "product", "description": "A machine."},
    ],
    "relationships": [
        {
            "source": "Ada Lovelace",
            "target": "Engine",
            "keywords": ["notes", "programs"],
            "description": "Ada wrote about the engine.",
            "strength": 8,
        }
    ],
}
TEXT = json.dumps(GOOD)
LIGHTRAG = """entity<|#|>Ada Lovelace<|#|>Person<|#|>Ada wrote notes.
entity<|#|>Engine<|#|>product<|#|>A machine.
relation<|#|>Ada Lovelace<|#|>Engine<|#|>notes, programs<|#|>Ada wrote about the engine.
<|COMPLETE|>"""
OLD_LIGHTRAG = """("entity"<|>"Ada Lovelace"<|>"Person"<|>"Ada wrote notes.")##
("entity"<|>"Engine"<|>"product"<|>"A machine.")##
("relationship"<|>"Ada Lovelace"<|>"Engine"<|>"Ada wrote about the engine."<|>"notes, programs"<|>8)##
("content_keywords"<|>"history, computing")<|COMPLETE|>"""
GRAPHRAG = """("entity"<|>ADA LOVELACE<|>PERSON<|>Ada wrote notes.)
##
("entity"<|>ENGINE<|>PRODUCT<|>A machine.)
##
("relationship"<|>ADA LOVELACE<|>ENGINE<|>Ada wrote about the engine.<|>8)
<|COMPLETE|>"""


def read(text: str) -> Extraction:
    return parse_extraction(text, False)


def with_entity(**fields: Any) -> str:
    return json.dumps({"entities": [fields], "relationships": []})


def with_relationship(**fields: Any) -> str:
    whole = {"source": "A", "target": "B", "keywords": [], "description": "d", "strength": 1} | fields
    return json.dumps({"entities": [], "relationships": [whole]})


COMPLETE = {
    "plain": TEXT,
    "indented": json.dumps(GOOD, indent=4),
    "code fence": f"```json\n{TEXT}\n```",
    "prose around it": f"Here is what I found:\n\n{TEXT}\n\nLet me know if you need more!",
    "prose with braces before it": f"As {{requested}} [1], the JSON: {TEXT}",
    "thoughts before it": f'<think>Is {{"entities": [ the right key?</think>{TEXT}',
    "thoughts whose beginning is missing": f'Is {{"entities": ["Zed"], "relationships": []}} right?\n</think>\n\n{TEXT}',
    "a list in two parts": f'{{"entities": {json.dumps(GOOD["entities"][:1])}, {TEXT[1:]}',
    "a list in two parts within prose": f'So: {{"entities": {json.dumps(GOOD["entities"][:1])}, {TEXT[1:]}.',
    "trailing commas": TEXT.replace("}]", "},]").replace("]}", "],}"),
    "line ends within strings": TEXT.replace("Ada wrote notes.", "Ada wrote\nnotes."),
    "byte order mark": "\ufeff" + TEXT,
    "other keys of fields": TEXT.replace('"name"', '"entity_name"')
    .replace('"type"', '"entity_type"')
    .replace('"source"', '"src_id"')
    .replace('"target"', '"tgt_id"')
    .replace('"strength"', '"weight"'),
    "title and relations": TEXT.replace('"name"', '"title"').replace('"relationships"', '"relations"'),
    "capital keys": TEXT.replace('"entities"', '"Entities"').replace('"name"', '"Name"'),
    "keywords in one string": TEXT.replace('["notes", "programs"]', '"notes, programs"'),
    "strength as text": TEXT.replace(": 8}", ': "8"}'),
    "wrapped in one key": json.dumps({"result": GOOD}),
    "a list of items": json.dumps(GOOD["entities"] + GOOD["relationships"]),
    "one list a line": "\n".join(json.dumps({key: GOOD[key]}) for key in GOOD),
    "unknown keys": json.dumps({**GOOD, "notes": {"confidence": 0.9}}),
    "nodes and links": json.dumps(
        {
            "nodes": [{"id": e["name"], "label": e["type"], "description": e["description"]} for e in GOOD["entities"]],
            "links": GOOD["relationships"],
        }
    ),
    "numbered nodes": json.dumps(
        {
            "nodes": [
                {"id": number, "label": entity["name"], "category": entity["type"], "desc": entity["description"]}
                for number, entity in enumerate(GOOD["entities"])
            ],
            "edges": [{**GOOD["relationships"][0], "source": 0, "target": 1}],
        }
    ),
    "a property graph": json.dumps(
        {
            "nodes": [{"id": f"n{n}", "labels": [e["type"]], "properties": e} for n, e in enumerate(GOOD["entities"])],
            "relationships": [{"from": "n0", "to": "n1", "properties": GOOD["relationships"][0]}],
        }
    ).replace('"source": "Ada Lovelace", "target": "Engine", ', ""),
    "extracted entities, edges": json.dumps({"extracted_entities": GOOD["entities"], "edges": GOOD["relationships"]})
    .replace('"source"', '"head"')
    .replace('"target"', '"tail"'),
    "lists of other names": json.dumps(
        {"people": GOOD["entities"][:1], "things": GOOD["entities"][1:], "links": GOOD["relationships"]}
    ),
    "relationships within entities": json.dumps(
        {
            "entities": [
                {**GOOD["entities"][0], "relations": [{**GOOD["relationships"][0], "source": None}]},
                GOOD["entities"][1],
            ]
        }
    ).replace('"source": null, ', ""),
    "wrapped with a status": json.dumps({"status": "success", "data": {"graph": GOOD}}),
    "a tool call": json.dumps({"name": "extract", "arguments": GOOD}),
    "between tags, with a note": f"<output>{TEXT}</output>\n[Note: this is all]",
    "a tool use": json.dumps([{"type": "tool_use", "id": "toolu_1", "name": "extract", "input": GOOD}]),
    "tool calls": json.dumps(
        [{"id": "call_1", "type": "function", "function": {"name": "extract", "arguments": TEXT}}]
    ),
    "ends that are objects": TEXT.replace('"source": "Ada Lovelace"', '"source": {"name": "Ada Lovelace"}'),
    "Chinese keys": TEXT.replace('"entities"', '"实体"').replace('"relationships"', '"关系"'),
    "Python's quotes": str(GOOD),
    "typographic quotes": TEXT.replace('"name"', "“name”"),
    "a path whose end escapes a quote": TEXT[:-1] + r', "file": "C:\data\", "pages": 2}',
    "LightRAG": LIGHTRAG,
    "LightRAG before 1.4": OLD_LIGHTRAG,
    "GraphRAG": GRAPHRAG,
    "LightRAG, worn delimiters": LIGHTRAG.replace("<|#|>Person", "<|#>Person").replace("<|#|>product", "<#|>product"),
    "LightRAG in a fence": f"```\n{LIGHTRAG}\n```",
}


@pytest.mark.parametrize("text", COMPLETE.values(), ids=COMPLETE.keys())
def test_all_of_a_complete_answer_is_read(text: str) -> None:
    extraction = read(text)
    assert sorted(extraction.entities) == ["ada lovelace", "engine"]
    assert {entity.type for entity in extraction.entities.values()} == {"person", "product"}
    assert extraction.entities["ada lovelace"].description.split() == ["Ada", "wrote", "notes."]
    (relationship,) = extraction.relationships.values()
    assert (relationship.source, relationship.target) == ("ada lovelace", "engine")
    assert relationship.description == "Ada wrote about the engine."
    if "GraphRAG" not in text and "PERSON" not in text:
        assert relationship.keywords == ("notes", "programs")
    assert relationship.strength == (1 if "#" in text and "##" not in text else 8)
    assert not extraction.repaired and not extraction.drop_reasons


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"$\frac{a}{b}$, $\beta$ and $\nu$", r"$\frac{a}{b}$, $\beta$ and $\nu$"),
        (r"\\frac{a}{b} \\beta", r"\frac{a}{b} \beta"),
        (r"\theta, \rho, \times, \nabla, \neq, \textbf{x}", r"\theta, \rho, \times, \nabla, \neq, \textbf{x}"),
        (r"f = \tan x and E(\nu) in D:\data\test.csv", r"f = \tan x and E(\nu) in D:\data\test.csv"),
        (r"\alpha \lambda \sum_i \underline{x} \(\tau\)", r"\alpha \lambda \sum_i \underline{x} \(\tau\)"),
        (
            r"$$\neg p \to q$$, \[ E = h\nu \], $\textstyle x \notag$",
            r"$$\neg p \to q$$, \[ E = h\nu \], $\textstyle x \notag$",
        ),
        (
            r"C:\Program Files\nodejs, C:\Program Files (x86)\temp",
            r"C:\Program Files\nodejs, C:\Program Files (x86)\temp",
        ),
        (r"C:\Users\new\temp\bin", r"C:\Users\new\temp\bin"),
        (r"\\srv\share, \d+\b", r"\\srv\share, \d+\b"),
        (r"It\'s", "It's"),
        (r"Q:\nwhat is C:\\Users\nthe \\alpha.\nnext", "Q:\nwhat is C:\\Users\nthe \\alpha.\nnext"),
        (r"one\nnew\ttab\nThe\ne poi", "one\nnew\ttab\nThe\ne poi"),
        (r"caf\u00e9 \/ \"x\" \user", 'caf\u00e9 / "x" \\user'),
        ("x\frac{1}{2}", r"x\frac{1}{2}"),
        ('the "Engine" is new', 'the "Engine" is new'),
        ('she said "yes", "no", and left', 'she said "yes", "no", and left'),
        ('it ends "so"', 'it ends "so"'),
    ],
)
def test_backslashes_and_quotes_are_those_of_the_text(written: str, meant: str) -> None:
    for whole in (TEXT, f"So: {TEXT} Done.", TEXT.replace("Ada wrote about the engine.", r"\q")):
        extraction = read(whole.replace("A machine.", written))
        assert extraction.entities["engine"].description == meant
        assert len(extraction.relationships) == 1


def test_lines_of_one_description_are_one_fact() -> None:
    lines = {"source": "Ada Lovelace", "target": "Engine", "description": "Steps:\n1. built\n2. sold to Carl"}
    sued = {"source": "Engine", "target": "Ada Lovelace", "description": "It was sued."}
    (stated,) = read(json.dumps({"entities": [], "relationships": [lines, sued]})).relationships.values()
    assert stated.description == "Steps: 1. built 2. sold to Carl\nIt was sued."


def test_a_string_that_never_ends_takes_no_other_members() -> None:
    with pytest.raises(ItemFault):
        read(TEXT.replace('"A machine."', '"A machine" and "so'))


DRAFT = json.dumps({"entities": ["Zed"], "relationships": []})
CHANNEL = "<|channel|>{}<|message|>"


@pytest.mark.parametrize(
    "reply",
    [
        *(f"{start}{DRAFT}{end}" + "{}" for start, end in (
            ("[THINK]", "[/THINK]"), ("<thought>", "</thought>"), ("<reasoning>", "</reasoning>"), ("<THINKING>", "</THINKING>"),
            ("<seed:think>", "</seed:think>"), ("◁think▷", "◁/think▷"), ('<think time="3s">', "</think>"),
            ("<|START_THINKING|>", "<|END_THINKING|>"), ("<|begin_of_thought|>", "<|end_of_thought|>"),
            ("<longcat_think>", "</longcat_think>"), ("<|channel>thought\n", "<channel|>"),
            ("<|inner_prefix|>", "<|inner_suffix|>"),
            ("<think>a</think>\nSo:\n<think>", "</think>"), ("", "\n</think>\n"), ("", " or so.</think> "),
            ("", " so </think> and "),
            ("a</think>", "</think>"), ("<think>a <think>b</think> c", "</think>"), ('<think>Not "</think>" yet. ', "</think>"),
            (CHANNEL.format("analysis"), "<|end|><|start|>assistant" + CHANNEL.format("final")),
            (CHANNEL.format("analysis") + "a<|end|><|start|>assistant" + CHANNEL.format("commentary to=x"),
             "<|end|><|start|>assistant" + CHANNEL.format("final <|constrain|>json")),
            ("analysisWe need ", ".assistantfinal"),
            ("<analysis>", "</analysis>"), ("<chain_of_thought>\n", "\n</chain_of_thought>"), ("[THOUGHT]", "[/THOUGHT]"),
            ('<details type="reasoning"><summary>Thought</summary>', "</details>"), ("```\n<think>\n", "\n</think>\n```\n"),
        )),
    ],
)  # fmt: skip
def test_drafts_of_reasoning_are_no_entities(reply: str) -> None:
    assert sorted(read(reply.removesuffix("{}") + TEXT).entities) == ["ada lovelace", "engine"]


@pytest.mark.parametrize(
    "reply", [f"<think>{DRAFT}", f"[THINK]{DRAFT} {TEXT}", f"{CHANNEL.format('analysis')}{DRAFT}<|end|>"]
)
def test_reasoning_without_an_end_is_a_fault(reply: str) -> None:
    with pytest.raises(ItemFault):
        read(reply)
    assert salvage(reply) is None


@pytest.mark.parametrize(
    ("between", "last", "names"),
    [
        ("Wait, Bob is no person here.", ["Ada", "Engine"], {"ada", "engine"}),
        ("Corrected JSON:", ["Ada", "Engine", "Bob", "Rome"], {"ada", "engine", "bob", "rome"}),
        ("Wait, I missed one:", ["Rome"], {"ada", "engine", "bob", "rome"}),
        ("And:", ["Ada", "Engine"], {"ada", "engine", "bob"}),
    ],
)
def test_a_draft_that_the_model_puts_right_is_left_out(between: str, last: list[str], names: set[str]) -> None:
    draft, final = (
        json.dumps({"entities": [{"name": n, "type": "x"} for n in ns]}) for ns in (["Ada", "Engine", "Bob"], last)
    )
    assert set(read(f"{draft}\n\n{between}\n\n{final}").entities) == names


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("{}\nWait, I missed one entity:\n", {"entities": [*GOOD["entities"], {"name": "Rome", "type": "place"}]}),
        ("<output>{}</output>\n", {"claims": []}),
        ("<entities>{}</entities>\n", {"relationships": GOOD["relationships"]}),
    ],
)
def test_what_says_less_takes_no_place_of_a_draft(first: str, last: dict[str, object]) -> None:
    extraction = read(first.format(TEXT) + json.dumps(last))
    assert extraction.entities.keys() >= {"ada lovelace", "engine"}
    assert len(extraction.relationships) == 1


def test_rows_keep_their_backslashes() -> None:
    description = r"It uses C:\Users\new and $\frac{a}{b}$."
    assert read(LIGHTRAG.replace("A machine.", description)).entities["engine"].description == description


def test_marks_of_reasoning_within_json_are_its_text() -> None:
    text = "A <think> and a </think> in a <reasoning> text."
    assert read(TEXT.replace("A machine.", text)).entities["engine"].description == text


@pytest.mark.parametrize("lists", ['"relationships":[]', '"links":[{"source":"Ada","target":"Engine"}]'])
def test_beside_lists_of_ours_nothing_else_is_an_entity(lists: str) -> None:
    assert "none found" not in read(f'{{"entities":[],{lists},"notes":[{{"title":"none found"}}]}}').entities


def test_entities_by_their_types_are_read() -> None:
    text = '{"entities": {"PERSON": ["Ada", {"name": "Bo"}], "ORG": [{"name": "Acme", "type": "firm"}], "PLACE": []}}'
    types = {entity.name: entity.type for entity in read(text).entities.values()}
    assert types == {"Ada": "person", "Bo": "person", "Acme": "firm"}
    assert not read('{"entities": {"PERSON": []}, "relationships": []}').entities


FAULTY = {
    "nothing": "",
    "white space": " \n ",
    "prose": "I am sorry, but I cannot help with that.",
    "prose about entities": "The entities are Ada Lovelace and the Engine.",
    "an empty object": "{}",
    "null": "null",
    "a number": "42",
    "a string": '"entities"',
    "another object": '{"answer": "Ada"}',
    "a status without data": '{"status": "success", "data": {}}',
    "names that are none": '{"entities": [{"name": "-"}], "relationships": []}',
    "entities a number": '{"entities": 7, "relationships": []}',
    "entities null": '{"entities": null, "relationships": []}',
    "entities an object": '{"entities": {"Ada": "person"}, "relationships": []}',
    "relationships text": '{"entities": [], "relationships": "none"}',
    "an entity a number": '{"entities": [1, 2], "relationships": []}',
    "an entity a list": '{"entities": [["Ada", "person"]], "relationships": []}',
    "an entity without name": with_entity(type="person", description="Somebody."),
    "a name that is a list": with_entity(name=["Ada", "Lovelace"], type="person"),
    "a name that is an object": with_entity(name={"first": "Ada"}),
    "a name that is true": with_entity(name=True),
    "a description that is a list": with_entity(name="Ada", description=["wrote", "notes"]),
    "a type that is an object": with_entity(name="Ada", type={"a": 1}),
    "a relationship without target": '{"entities": [], "relationships": [{"source": "A", "description": "d"}]}',
    "a source that is a list": with_relationship(source=["A", "C"]),
    "keywords that are an object": with_relationship(keywords={"a": 1}),
    "keywords that are lists": with_relationship(keywords=[["a"]]),
    "a triple of two": '{"entities": ["A"], "triples": [["A", "knows"]]}',
    "a triple of numbers": '{"entities": ["A"], "triples": [["A", 1, 2]]}',
    "torn in a string": TEXT[: TEXT.index("notes.")],
    "torn after a brace": TEXT[: TEXT.index("}, {") + 1],
    "torn before the last brace": TEXT[:-1],
    "torn in a fence": f"```json\n{TEXT[:-30]}\n```",
    "endless nesting": "[" * 100_000,
    "endless nesting of lists of entities": '{"entities": ' * 5_000,
    "many opening braces": "{ " * 200_000,
    "a loop of tokens": '{"entities": [{"name": "Ada", "description": "' + "and the " * 20_000,
    "a loop in a whole answer": with_entity(name="Ada", description="and the " * 20_000),
    "a loop of entities": json.dumps({"entities": GOOD["entities"] * 500, "relationships": []}),
    "rows without end": LIGHTRAG.replace("<|COMPLETE|>", ""),
    "a row torn": LIGHTRAG[: LIGHTRAG.index("notes, programs")],
    "a row too short": LIGHTRAG.replace("<|#|>product<|#|>A machine.", ""),
    "a row of an unknown kind": LIGHTRAG.replace("entity<|#|>Engine", "thing<|#|>Engine"),
    "a number of 5,000 digits for a list": '{"entities": ' + "9" * 5_000 + "}",
}


@pytest.mark.parametrize("text", FAULTY.values(), ids=FAULTY.keys())
def test_anything_less_is_a_fault_that_keeps_the_answer(text: str) -> None:
    with pytest.raises(ItemFault) as raised:
        read(text)
    assert raised.value.raw == text
    part = salvage(text)
    assert part is None or part.repaired


@pytest.mark.parametrize("text", [TEXT, json.dumps(GOOD, indent=2), LIGHTRAG, OLD_LIGHTRAG, GRAPHRAG])
def test_an_answer_torn_anywhere_is_a_fault(text: str) -> None:
    for end in range(len(text)):
        with pytest.raises(ItemFault):
            read(text[:end])
        part = salvage(text[:end])
        if part is not None:
            # What is whole is as it was: no name, no description is cut.
            assert set(part.entities) <= {"ada lovelace", "engine"}
            assert all(
                entity.description in ("Ada wrote notes.", "A machine.", "") for entity in part.entities.values()
            )


def test_recorded_answers_are_complete_and_torn_ones_faults(shared_data: Path) -> None:
    mentions = [0, 0]
    with (shared_data / "lihua-world" / "extraction.jsonl").open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            record = json.loads(line)
            del record["id"]
            text = json.dumps(record, ensure_ascii=False)
            extraction = read(text)
            mentions[0] += len(extraction.entities)
            mentions[1] += len(extraction.relationships)
            if number % 40 == 0:
                for end in range(0, len(text), 31):
                    with pytest.raises(ItemFault):
                        read(text[:end])
                    salvage(text[:end])
    assert mentions == [1861, 2039]


def test_recorded_triples_are_complete(shared_data: Path) -> None:
    triples = 0
    with (shared_data / "musique" / "openie.jsonl").open(encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            extraction = read(json.dumps({"entities": record["entities"], "triples": record["triples"]}))
            triples += sum(relationship.triple_count for relationship in extraction.relationships.values()) + len(
                extraction.drop_reasons
            )
    # All but those of a name with itself, or without a letter, which are dropped with a reason.
    assert 17_200 <= triples <= 17_300


@given(st.text(max_size=300))
def test_no_text_crashes_the_parser(text: str) -> None:
    try:
        extraction = read(text)
    except ItemFault:
        salvage(text)
    else:
        assert not extraction.repaired


@given(st.data())
def test_no_json_crashes_the_parser(data: st.DataObject) -> None:
    leaf = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    names = st.sampled_from(["name", "type", "source", "target", "keywords", "strength", "description", "x"])
    item = st.dictionaries(names, leaf | st.lists(leaf, max_size=3), max_size=5) | st.lists(leaf, max_size=4) | leaf
    lists = st.lists(item, max_size=4) | item
    value = data.draw(st.dictionaries(st.sampled_from(["entities", "relationships", "triples", "claims"]), lists))
    text = json.dumps(value)
    try:
        read(text)
    except ItemFault:
        salvage(text)


@pytest.mark.parametrize(
    "text",
    ['{"a": ' * 5000 + "1" + "}" * 5000, '[{"entities": 1, "a": ' * 2000 + "1" + "}]" * 2000],
    ids=["objects", "lists"],
)
def test_wrappers_without_end_are_a_fault(text: str) -> None:
    with pytest.raises(ItemFault):
        parse_extraction(text, False)
    salvage(text)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "text",
    ["[" * 40 + "1," * 20_000, '{"a": ' * 40 + "[" + "1," * 20_000, "{" + '"entities": [1],' * 80_000 + '"a": 1}'],
    ids=["torn lists", "torn objects", "one list in pieces"],
)
def test_what_is_torn_deep_inside_is_read_a_few_times_at_most(text: str) -> None:
    def least_time(call: Callable[[], object]) -> float:
        times = []
        for _ in range(3):
            began = time.process_time()
            call()
            times.append(time.process_time() - began)
        return min(times)

    def parse_torn() -> None:
        with pytest.raises(ItemFault):
            parse_extraction(text, False)

    # It is some 8 units; read anew at each of 40 depths, or for each piece, it would be hundreds.
    unit = least_time(lambda: json.loads(f"[{'1,' * 1_000_000}1]"))
    assert least_time(parse_torn) < 40 * unit


def test_an_answer_of_more_items_than_a_chunk_can_have_is_a_fault_and_nothing_of_it_is_kept() -> None:
    def answer(count: int) -> str:
        return json.dumps({"entities": [f"Name {number}" for number in range(count)], "relationships": []})

    assert len(parse_extraction(answer(MAX_ITEMS), False)) == MAX_ITEMS
    with pytest.raises(ItemFault, match="it has 5,001 entities, relationships and claims"):
        parse_extraction(answer(MAX_ITEMS + 1), False)
    assert salvage(answer(MAX_ITEMS + 1)) is None


def test_of_a_torn_answer_the_whole_items_can_be_had() -> None:
    part = salvage(TEXT[: TEXT.index("A machine.")])
    assert part is not None and list(part.entities) == ["ada lovelace"] and part.repaired
    part = salvage(TEXT[:-1])
    assert part is not None and len(part.relationships) == 1
    part = salvage(LIGHTRAG[: LIGHTRAG.index("notes, programs")])
    assert part is not None and sorted(part.entities) == ["ada lovelace", "engine"]
    assert salvage("Sorry.") is None


def test_an_answer_that_the_endpoint_cut_off_is_a_fault_even_if_it_parses() -> None:
    with pytest.raises(ItemFault, match="cut off"):
        parse_extraction(TEXT, True)


def test_empty_lists_say_that_there_is_nothing() -> None:
    assert len(read('{"entities": [], "relationships": []}')) == 0
    assert len(read("<|COMPLETE|>")) == 0


def test_prose_answers_what_was_missed_but_not_what_there_is() -> None:
    assert len(parse_extraction("No further entities.", False, may_be_nothing=True)) == 0
    with pytest.raises(ItemFault):
        parse_extraction(TEXT[:-1], False, may_be_nothing=True)


CLAIM = {
    "subject": "Ada",
    "object": "NONE",
    "type": "Authorship",
    "status": "true",
    "start": "1843-01-01",
    "end": "",
    "description": "Ada wrote the notes.",
    "source_text": "Ada wrote notes",
}


def test_claims_are_read_from_json_and_from_rows() -> None:
    (claim,) = read(json.dumps({**GOOD, "claims": [CLAIM, CLAIM]})).claims
    assert (claim.subject, claim.object, claim.type, claim.status) == ("Ada", None, "authorship", "TRUE")
    assert (claim.start, claim.end, claim.source_text) == ("1843-01-01", None, "Ada wrote notes")
    row = "(ADA<|>NONE<|>AUTHORSHIP<|>TRUE<|>1843-01-01<|>NONE<|>Ada wrote the notes.<|>Ada wrote notes)<|COMPLETE|>"
    (claim,) = read(row).claims
    assert (claim.subject, claim.object, claim.type, claim.end) == ("ADA", None, "authorship", None)


def test_a_claim_of_unknown_status_is_suspected_and_one_that_says_nothing_dropped() -> None:
    extraction = read(json.dumps({**GOOD, "claims": [{**CLAIM, "status": "maybe"}, {**CLAIM, "description": ""}]}))
    assert [claim.status for claim in extraction.claims] == ["SUSPECTED"] and len(extraction.drop_reasons) == 1
