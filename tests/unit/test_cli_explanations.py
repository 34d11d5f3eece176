"""What `--explain` prints: every stage with what became of it, what was searched for, and the plan in words."""

import io

import pytest
from rich.console import Console

from corpusmesh.retrieve.v1 import answer_service_pb2 as answer_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh.type.v1 import place_pb2
from corpusmesh_app.cli.answer_commands import print_citations, print_hit
from corpusmesh_app.cli.explanations import condition_text, plan_text, print_explanation
from corpusmesh_app.cli.output import Output
from corpusmesh_app.cli.retrieval_shapes import citation_shape, search_shape
from corpusmesh_app.cli.session import Session


def _explanation() -> pb.Explanation:
    return pb.Explanation(
        stages=[
            pb.StageTiming(stage="recall", duration_milliseconds=4.25, state=pb.StageTiming.STATE_RAN),
            pb.StageTiming(stage="hyde", state=pb.StageTiming.STATE_SKIPPED, detail="no language model is used"),
        ],
        variants=[
            pb.QueryVariant(text="How long is leave?", origin="question", weight=1.0),
            pb.QueryVariant(text="休假多久？", origin="translation", weight=0.5),
        ],
        candidates=[
            pb.CandidateExplanation(record_id="1-0", cross_script=True),
            pb.CandidateExplanation(record_id="1-1", dropped_reason="merged_into_parent"),
        ],
    )


def _printed(explanation: pb.Explanation) -> str:
    text = io.StringIO()
    session = Session(Output(as_json=False))
    print_explanation(session, Console(file=text, width=150), explanation)
    return text.getvalue()


def test_explanation_says_what_became_of_every_stage_and_candidate() -> None:
    text = _printed(_explanation())

    assert "skipped" in text
    assert "no language model is used" in text
    assert "休假多久？" in text
    assert "merged into parent" in text
    assert "meaning stands in for words" in text


def test_a_long_list_of_candidates_is_cut_and_says_so() -> None:
    explanation = pb.Explanation(candidates=[pb.CandidateExplanation(record_id=f"1-{n}") for n in range(50)])

    assert "10 further candidates" in _printed(explanation)


def test_plan_text_names_what_is_switched_on_alone() -> None:
    plan = pb.RetrievalPlan(
        mode=pb.SEARCH_MODE_HYBRID,
        fusion=pb.FUSION_ADAPTIVE,
        candidate_window=64,
        understanding=pb.UnderstandingPlan(refine=True, hyde=False),
        rerank=pb.RerankPlan(method=pb.RerankPlan.METHOD_NONE, depth=32),
        assembly=pb.AssemblyPlan(diversity=pb.AssemblyPlan.DIVERSITY_MMR, neighbours=0, hops=2),
    )

    assert plan_text(plan) == "hybrid, adaptive, window 64; understanding refine; assembly mmr, hops 2"


@pytest.mark.parametrize(
    ("operator", "expected"),
    [(pb.MetadataCondition.OPERATOR_GREATER_OR_EQUAL, "year ≥ 2024"), (0, "year = 2024")],
)
def test_condition_text(operator: pb.MetadataCondition.Operator.ValueType, expected: str) -> None:
    assert condition_text(pb.MetadataCondition(key="year", operator=operator, values=["2024"])) == expected


def test_json_of_a_search_holds_conditions_that_were_read_out_of_the_question() -> None:
    condition = pb.MetadataCondition(key="year", operator=pb.MetadataCondition.OPERATOR_LESS, values=["2024"])
    shape = search_shape(pb.SearchChunksResponse(inferred_conditions=[condition], explanation=_explanation()))

    assert shape["inferred_conditions"] == [{"key": "year", "operator": "less", "values": ["2024"]}]
    stages = shape["explanation"]["stages"]  # type: ignore[index] # a shape
    assert [stage["state"] for stage in stages] == ["ran", "skipped"]


def _node_hit(leaf_count: int) -> pb.SearchHit:
    leaves = [
        pb.HitLeaf(
            record_id=f"1-{number}",
            document="knowledgeBases/kb/documents/d",
            title="Rules",
            place=place_pb2.Place(
                version="knowledgeBases/kb/documents/d/versions/2", display_name="r.pdf", page=number
            ),
        )
        for number in range(1, leaf_count + 1)
    ]
    return pb.SearchHit(record_id="9-tree_node-a", kind="tree_node", title="Rules, Fees", layer=2, leaves=leaves)


def test_a_summary_is_shown_with_its_layer_and_the_places_that_it_stands_on() -> None:
    text = io.StringIO()
    print_hit(Console(file=text, width=150), 1, _node_hit(5), full=False)
    shown = text.getvalue()
    assert "1. Rules, Fees · summary on layer 2 of 5 passages" in shown
    assert shown.count("stands on r.pdf · Rules · page ") == 3
    assert "and 2 more" in shown
    text = io.StringIO()
    print_hit(Console(file=text, width=150), 1, _node_hit(5), full=True)
    assert text.getvalue().count("stands on") == 5
    shape = search_shape(pb.SearchChunksResponse(hits=[_node_hit(1)]))["hits"][0]
    assert (shape["layer"], shape["leaves"][0]["page"], shape["leaves"][0]["display_name"]) == (2, 1, "r.pdf")


def test_explanation_shows_the_path_through_a_tree() -> None:
    explanation = _explanation()
    steps = [("n2", 2, "followed", ["n1"]), ("n1", 1, "covered", ["1-0"])]
    explanation.tree_path.extend(
        pb.TreeStep(record_id=name, layer=layer, similarity=0.5, outcome=outcome, led_to=led_to)
        for name, layer, outcome, led_to in steps
    )
    shown = _printed(explanation)
    assert "followed" in shown
    assert "covered" in shown
    shape = search_shape(pb.SearchChunksResponse(explanation=explanation))["explanation"]["tree_path"]
    assert [(step["record_id"], step["outcome"], step["led_to"]) for step in shape] == [
        ("n2", "followed", ["n1"]),
        ("n1", "covered", ["1-0"]),
    ]


def test_summaries_that_matter_are_shown_before_those_that_were_only_looked_at() -> None:
    outcomes = ["covered"] * 30 + ["kept", "dropped", "followed"]
    steps = [pb.TreeStep(record_id=f"n{place}", layer=1, outcome=outcome) for place, outcome in enumerate(outcomes)]
    shown = _printed(pb.Explanation(tree_path=steps))
    assert shown.index("n30 ") < shown.index("n32 ") < shown.index("n0 ")
    assert "13 further summaries" in shown


def test_the_page_of_its_first_passage_is_not_that_of_a_summary() -> None:
    hit = _node_hit(3)
    hit.place.page = 1
    text = io.StringIO()
    print_hit(Console(file=text, width=150), 1, hit, full=False)
    assert "page" not in text.getvalue().splitlines()[0]


def test_a_citation_of_a_summary_tells_where_it_stands() -> None:
    hit = _node_hit(2)
    text = io.StringIO()
    citation = answer_pb.Citation(marker=7, hit=hit, places=hit.leaves[1:])
    print_citations(
        Console(file=text, width=150), answer_pb.AnswerSummary(text="So it is [ID:7].", citations=[citation])
    )
    assert "stands in r.pdf · Rules · page 2" in text.getvalue()
    assert [place["page"] for place in citation_shape(citation)["places"]] == [2]


def test_explanation_shows_the_path_through_a_graph_with_what_became_evidence_first() -> None:
    steps = [
        pb.GraphStep(kind="entity", name="e", label="Euler", reason="named", score=1.0, outcome="dropped"),
        pb.GraphStep(kind="community_report", name="r-1", label="A family", reason="report", hop=1, outcome="kept"),
    ]
    explanation = pb.Explanation(graph_path=steps)
    shown = _printed(explanation)
    assert shown.index("A family") < shown.index("Euler")
    assert "community report" in shown
    shape = search_shape(pb.SearchChunksResponse(explanation=explanation))["explanation"]["graph_path"]
    assert [(step["label"], step["outcome"]) for step in shape] == [("Euler", "dropped"), ("A family", "kept")]
    many = [pb.GraphStep(kind="chunk", name=f"{place}-0", outcome="kept") for place in range(22)]
    assert "2 further steps" in _printed(pb.Explanation(graph_path=many))


def test_a_table_of_a_graph_is_shown_with_the_number_of_its_passages() -> None:
    hit = _node_hit(5)
    hit.kind, hit.layer = "graph_table", 0
    text = io.StringIO()
    print_hit(Console(file=text, width=150), 1, hit, full=False)
    assert "what the graph says of 5 passages" in text.getvalue()
