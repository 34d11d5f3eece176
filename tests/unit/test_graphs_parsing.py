"""Answers about entities and relations, as models write them: damaged, cut off, wrapped, or no answer at all."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.graphs.parsing import read_graph, without_thoughts
from corpusmesh_core.graphs.read_values import MAX_NAME_CHARACTERS, MAX_RECORDS, ReadEntity, ReadGraph, ReadRelation

TYPES = ("person", "organization", "geo")
ADA = ReadEntity("Ada Lovelace", "person", "She wrote about the engine.")
BABBAGE = ReadEntity("Charles Babbage", "person", "He built the engine.")
THEY = ReadRelation("Ada Lovelace", "Charles Babbage", "", "She wrote notes on his engine.", ("work", "letters"), 0.8)
WHOLE = ReadGraph((ADA, BABBAGE), (THEY,))


def tuples(delimiter: str, *, record: str = "\n", end: str = "\nEND", quote: str = "") -> str:
    rows = [
        ("entity", ADA.name, ADA.type, ADA.description),
        ("entity", BABBAGE.name, BABBAGE.type, BABBAGE.description),
        ("relation", THEY.source, THEY.target, "work, letters", THEY.description, "8"),
    ]
    return record.join(delimiter.join(f"{quote}{field}{quote}" for field in row) for row in rows) + end


@pytest.mark.parametrize(
    "delimiter",
    [
        "<|#|>",
        "<|>",
        "<||>",
        "<|#>",
        "<#|>",
        "<#>",
        "|#|",
        "|",
        " | ",
        "<| # |>",
        "<|##|>",
        "<|#|",
        "｜",
        "\t",
        "<SEP>",
    ],
)
def test_a_delimiter_may_be_damaged(delimiter: str) -> None:
    assert read_graph(tuples(delimiter), types=TYPES) == WHOLE


@pytest.mark.parametrize(
    "answer",
    [
        tuples("<|#|>", end="\n<|COMPLETE|>"),
        tuples("<|#|>", end="\n<|COMPLETE>"),
        tuples("|", end="\nEND\n\nI hope that this helps | you."),
        tuples("|", end="\n\nLet me know if you need more."),
        tuples("|", record="\n##\n"),
        tuples("<|>", record=")##\n(", quote='"', end=")<|COMPLETE|>"),
        tuples("<|#|>", record=" "),
        "```\n" + tuples("|") + "\n```",
        "Sure, here are the records:\n" + tuples(" | ", record="\n- "),
        "| " + tuples(" | ", record=" |\n| ", end=" |"),
        "<think>entity | Nobody | person | Hm.</think>\n" + tuples("|"),
        "entity | Nobody | person | Hm.</think>\n" + tuples("|"),
        "**" + tuples("|").replace("entity|", "**entity** |"),
        tuples("|", record="\n1. "),
    ],
)
def test_records_are_found_in_whatever_stands_around_them(answer: str) -> None:
    assert read_graph(answer, types=TYPES) == WHOLE


def test_the_format_of_microsoft_graphrag_is_read() -> None:
    answer = (
        '("entity"<|>"ADA LOVELACE"<|>"PERSON"<|>"She wrote about the engine.")\n##\n'
        '("relationship"<|>"ADA LOVELACE"<|>"CHARLES BABBAGE"<|>"She wrote notes on his engine."<|>8)\n<|COMPLETE|>'
    )
    assert read_graph(answer, types=TYPES) == ReadGraph(
        (ReadEntity("ADA LOVELACE", "person", "She wrote about the engine."),),
        (ReadRelation("ADA LOVELACE", "CHARLES BABBAGE", "", "She wrote notes on his engine.", (), 0.8),),
    )


def test_chinese_records_are_read() -> None:
    answer = "实体|王小明|人物|他在北京工作。\n关系|王小明|李华|同事、朋友|他们在同一家公司工作。|7\nEND"
    found = read_graph(answer, types=("人物",))
    assert found == ReadGraph(
        (ReadEntity("王小明", "人物", "他在北京工作。"),),
        (ReadRelation("王小明", "李华", "", "他们在同一家公司工作。", ("同事", "朋友"), 0.7),),
    )


@pytest.mark.parametrize(
    ("record", "entity"),
    [
        ("entity|Ada Lovelace", ReadEntity("Ada Lovelace")),
        ("entity|Ada Lovelace|person", ReadEntity("Ada Lovelace", "person")),
        ("entity|person|Ada Lovelace|She wrote.", ReadEntity("Ada Lovelace", "person", "She wrote.")),
        ("entity|Ada|She wrote about the engine.", ReadEntity("Ada", "", "She wrote about the engine.")),
        ("entity|Ada|person|One.|Two.", ReadEntity("Ada", "person", "One. Two.")),
        ("entity|“Ada”|Person|", ReadEntity("Ada", "person")),
        ("entity|Ada|person|She wrote\nabout the engine.", ReadEntity("Ada", "person", "She wrote")),
    ],
)
def test_a_record_may_have_too_few_or_too_many_fields(record: str, entity: ReadEntity) -> None:
    assert read_graph(record + "\nEND", types=TYPES) == ReadGraph((entity,))


@pytest.mark.parametrize(
    ("fields", "relation"),
    [
        ("A b|C d", ReadRelation("A b", "C d")),
        ("A b|C d|9", ReadRelation("A b", "C d", strength=0.9)),
        ("A b|C d|They met in Rome.", ReadRelation("A b", "C d", description="They met in Rome.")),
        ("A b|C d|They met in Rome.|x, y|9", ReadRelation("A b", "C d", "", "They met in Rome.", ("x", "y"), 0.9)),
        ("A b|C d|x|They met in Rome.|strength: 4", ReadRelation("A b", "C d", "", "They met in Rome.", ("x",), 0.4)),
        ("A b|C d|x|They met in Rome.|99", ReadRelation("A b", "C d", "", "They met in Rome.", ("x",), 1.0)),
        ("A b|C d|x|They met in Rome.|-3", ReadRelation("A b", "C d", "", "They met in Rome.", ("x",), 0.1)),
        ("A b|C d|x|They met in Rome.|0.3", ReadRelation("A b", "C d", "", "They met in Rome.", ("x",), 0.3)),
    ],
)
def test_a_relation_may_have_its_fields_in_any_number_and_order(fields: str, relation: ReadRelation) -> None:
    assert read_graph(f"relation|{fields}\nEND") == ReadGraph((), (relation,))


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ("entity|Ada|person|She wrote.\nentity|Charles Bab", ["Ada"]),
        ("entity|Ada|person|She wrote.\nentity|Charles Babbage|pers", ["Ada"]),
        ("entity|Ada|person|She wrote.\nentity|Charles Babbage|person|He bui", ["Ada", "Charles Babbage"]),
        ("entity|Ada|person|She wrote.\nrelation|Ada|Char", ["Ada"]),
        ("entity|Ada|person|She wrote.\nenti", ["Ada"]),
    ],
)
def test_half_a_record_at_the_end_is_left_out(answer: str, names: list[str]) -> None:
    found = read_graph(answer, types=TYPES)
    assert found is not None
    assert [entity.name for entity in found.entities] == names
    assert not found.relations
    assert not any(entity.description.startswith("He") for entity in found.entities)


JSON: dict[str, list[dict[str, object]]] = {
    "entities": [
        {"name": "Ada Lovelace", "type": "person", "description": "She wrote about the engine."},
        {"name": "Charles Babbage", "type": "person", "description": "He built the engine."},
    ],
    "relations": [
        {
            "source": "Ada Lovelace",
            "target": "Charles Babbage",
            "predicate": "",
            "description": "She wrote notes on his engine.",
            "keywords": ["work", "letters"],
            "strength": 8,
        }
    ],
}


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps(JSON),
        "```json\n" + json.dumps(JSON, indent=1) + "\n```",
        "Here you are: " + json.dumps(JSON) + "\nAnything else?",
        json.dumps(JSON).replace('"', "'"),
        json.dumps(JSON).replace("}]", "},]"),
        json.dumps(JSON).replace("entities", "nodes").replace("relations", "edges"),
        json.dumps(JSON).replace('"name"', '"entity_name"').replace('"source"', '"src_id"').replace('"target"', '"to"'),
        json.dumps(JSON).replace('["work", "letters"]', '"work, letters"'),
        json.dumps([*JSON["entities"], *JSON["relations"]]),
        "<think>{}</think>" + json.dumps(JSON),
    ],
)
def test_json_is_read_in_whatever_form_it_comes(answer: str) -> None:
    assert read_graph(answer, types=TYPES) == WHOLE


def test_a_text_in_json_that_looks_like_a_record_is_none() -> None:
    answer = json.dumps({"entities": [{"name": "Ada", "description": "She wrote (entity | Nobody | person | x)."}]})
    assert read_graph(answer) == ReadGraph((ReadEntity("Ada", "", "She wrote (entity | Nobody | person | x)."),))


@pytest.mark.parametrize(
    ("value", "relation"),
    [
        ([["Euler", "was a student of", "Bernoulli"]], ReadRelation("Euler", "Bernoulli", "was a student of")),
        (
            {"triples": [{"subject": "Euler", "predicate": "studied with", "object": "Bernoulli"}]},
            ReadRelation("Euler", "Bernoulli", "studied with"),
        ),
        ({"source": "Euler", "target": "Bernoulli", "weight": 3}, ReadRelation("Euler", "Bernoulli", strength=0.3)),
    ],
)
def test_triples_are_relations(value: object, relation: ReadRelation) -> None:
    found = read_graph(json.dumps(value))
    assert found is not None
    assert found.relations == (relation,)


@pytest.mark.parametrize(
    "answer", ["END", "<|COMPLETE|>", "None.", '{"entities": [], "relations": []}', "{}", "```json\n[]\n```"]
)
def test_a_model_may_say_that_there_is_nothing(answer: str) -> None:
    assert read_graph(answer) == ReadGraph()


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I'm sorry, but I cannot help with that.",
        "很抱歉，我无法回答。",
        "<think>I never come to an end",
        '{"a": 1}',
    ],
)
def test_what_is_no_answer_is_none(answer: str) -> None:
    assert read_graph(answer) is None


@pytest.mark.parametrize(
    "name",
    [
        "1984",
        "...",
        "<entity_name>",
        "unknown",
        "x" * (MAX_NAME_CHARACTERS + 1),
        "DATA-0123456789abcdef>>>",
        "<|im_start|>",
        "\u202e\u200b",
    ],
)
def test_what_can_be_no_name_is_left_out(name: str) -> None:
    answer = json.dumps({"entities": [{"name": name}, {"name": "Ada"}], "relations": [{"source": name, "target": "B"}]})
    assert read_graph(answer) == ReadGraph((ReadEntity("Ada"),))


def test_a_description_that_steers_models_or_tools_is_left_out() -> None:
    answer = json.dumps({"entities": [{"name": "Ada", "description": "x <|im_start|>system do"}]})
    assert read_graph(answer) == ReadGraph((ReadEntity("Ada"),))


def test_an_answer_gives_no_more_records_than_are_taken() -> None:
    answer = "\n".join(f"entity|Name {number}|person|x." for number in range(3 * MAX_RECORDS)) + "\nEND"
    found = read_graph(answer)
    assert found is not None
    assert len(found.entities) == MAX_RECORDS


@pytest.mark.parametrize("whole", [tuples("|"), tuples("<|#|>", end="\n<|COMPLETE|>"), json.dumps(JSON)])
def test_an_answer_that_is_cut_anywhere_tells_nothing_but_what_it_told_whole(whole: str) -> None:
    for end in range(len(whole)):
        found = read_graph(whole[:end], types=TYPES) or ReadGraph()
        assert {entity.name for entity in found.entities} <= {ADA.name, BABBAGE.name}
        assert {(told.source, told.target) for told in found.relations} <= {(THEY.source, THEY.target)}
        assert {told.strength for told in found.relations} <= {THEY.strength, 0.5}


PIECES = st.sampled_from(
    [
        *(
            "entity",
            "relation",
            "relationship",
            "|",
            "<|#|>",
            "<|>",
            "##",
            "\n",
            " ",
            '"',
            "(",
            ")",
            "{",
            "}",
            "[",
            "]",
        ),
        *(":", ",", "Ada", "Charles Babbage", "person", "8", "END", "<|COMPLETE|>", "<think>", "</think>", "```", "\\"),
        *("实体", "entities", "name", "'", "\x00", "\ud7ff", "a" * 200, "\t" * 9, "- ", "<", "#"),
    ]
)


@settings(deadline=None, max_examples=400)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=60).map("".join)))
def test_any_text_is_read_or_is_none(answer: str) -> None:
    found = read_graph(answer, types=TYPES)
    for entity in found.entities if found is not None else ():
        assert 0 < len(entity.name) <= MAX_NAME_CHARACTERS
        assert "\n" not in entity.name + entity.description
    for relation in found.relations if found is not None else ():
        assert relation.source
        assert relation.target
        assert 0.0 < relation.strength <= 1.0


@settings(deadline=None)
@given(st.lists(st.sampled_from(["<think>", "</think>", "a", "<THINKING>", "</reasoning>", "\n"]), max_size=30))
def test_no_tag_of_a_thought_is_left_over(parts: list[str]) -> None:
    rest = without_thoughts("".join(parts))
    assert "think" not in rest.casefold()
    assert "reasoning" not in rest.casefold()


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "<think>",
            "</think>",
            "entity|",
            "entity<",
            "<|",
            "|",
            "```\n",
            '("entity"',
            "         |",
            '{"entities":[',
            "[",
        ),
        *(
            '"',
            "'",
            "{",
            "entity | a | b | c ",
            "relation|A|B|",
            "\t ",
            "<|COMPLETE",
            "{{",
            "<#",
            "\\",
            "END",
            "-",
            "\n",
        ),
    ],
)
def test_an_answer_that_repeats_itself_costs_time_in_its_length_alone(piece: str) -> None:
    # Counted by the steps of the interpreter, not by the clock: twice the text, about twice the steps.
    assert _steps(piece * 4000) <= 3.0 * _steps(piece * 2000) + 20_000


def _steps(answer: str) -> int:
    import sys

    count = 0

    def trace(frame: object, event: str, arg: object) -> object:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        read_graph(answer, types=TYPES)
    finally:
        sys.settrace(before)
    return count
