"""The default search over a graph: what is led to, what stays in front, and what is asked for."""

from collections.abc import Mapping, Sequence

import pytest
from pyroaring import BitMap

from corpusmesh_core.graph_search.linking import Question, passage_links, question_links
from corpusmesh_core.graph_search.page_rank import MAX_ROUNDS, MAX_WANTED, GraphSearch, rank_by_graphs
from corpusmesh_core.graphs.extraction import extract_entities
from corpusmesh_core.graphs.segments import Segment, SegmentDocument, pack_segment
from corpusmesh_core.graphs.settings import GraphMethod, GraphSettings
from corpusmesh_core.graphs.values import GraphChunk
from corpusmesh_core.graphs.view import GraphView, compile_view
from corpusmesh_core.ports.index import Candidate, Candidates
from corpusmesh_core.ranking import RankedCandidate, RankingOptions, merge_ranked, rank_candidates
from corpusmesh_core.records import Ordinal, Record, RecordKind, chunk_record_id
from corpusmesh_core.text import analyze, analyze_query

SETTINGS = GraphSettings(methods=(GraphMethod.NER,))
TEXTS = (
    "Jump for Glory is a 1937 British comedy film directed by Raoul Walsh and starring Valerie Hobson.",
    "Raoul Walsh (born 1887) was an American film director. He was married to Miriam Cooper.",
    "Betrayed is a 1917 film. It was written by Raoul Walsh and starred Miriam Cooper.",
    "The Glory Guys is a 1965 western film directed by Arnold Laven.",
    "Penicillin is an antibiotic that was found by Alexander Fleming in London.",
)
QUESTION = "Who is the spouse of the director of Jump for Glory?"


def view_of(texts: Sequence[str]) -> GraphView:
    documents = [
        SegmentDocument(place + 1, place + 101, extract_entities([GraphChunk(0, text)], SETTINGS))
        for place, text in enumerate(texts)
    ]
    visible = BitMap([*range(1, len(texts) + 1), *range(101, len(texts) + 101)])
    return compile_view([Segment.open(pack_segment(documents))], visible)


def record_id(place: int) -> str:
    return chunk_record_id(Ordinal(place + 1), 0)


def ranked_of(cosines: Mapping[int, float], texts: Sequence[str] = TEXTS) -> tuple[RankedCandidate, ...]:
    items = tuple(
        Candidate(
            Record(record_id(place), RecordKind.CHUNK, "kb", Ordinal(place + 1), (Ordinal(place + 1),), texts[place]),
            " ".join(analyze(texts[place]).fine),
            lexical_score=1.0,
            lexical_rank=rank,
            cosine=cosine,
            vector_rank=rank,
        )
        for rank, (place, cosine) in enumerate(cosines.items(), start=1)
    )
    return rank_candidates(Candidates(items, has_vector_leg=True), analyze_query(QUESTION), RankingOptions())


def search_of(question: str = QUESTION, texts: Sequence[str] = TEXTS) -> GraphSearch:
    return GraphSearch(question, analyze_query(question), {}, view_of(texts))


def ids_of(ranked: Sequence[RankedCandidate]) -> list[str]:
    return [item.candidate.record.record_id for item in ranked]


def test_a_question_names_the_longest_that_the_graph_knows() -> None:
    view = view_of(TEXTS)
    assert [view.name(link.entity) for link in question_links(QUESTION, view)] == ["Jump for Glory"]
    assert question_links("what is it?", view) == ()


def test_a_question_in_small_letters_is_linked_by_its_rows() -> None:
    view = view_of(TEXTS)
    found = question_links("who directed jump for glory", view)
    assert [view.name(link.entity) for link in found] == ["Jump for Glory"]


def test_a_passage_leads_on_to_what_others_name_but_not_to_itself() -> None:
    view = view_of(TEXTS)
    passage = int(view.find_passages([record_id(0)])[0])
    links = passage_links(TEXTS[0], "", passage, Question.of(analyze_query(QUESTION), {}), view)
    assert "Raoul Walsh" in {view.name(link.entity) for link in links}
    assert not {"Jump for Glory", "Valerie Hobson"} & {view.name(link.entity) for link in links}


def test_words_that_begin_alike_bear_on_each_other() -> None:
    asked = Question.of(analyze_query("director of the film"), {})
    assert asked.bearing({"direct"}, ()) > 0.0
    assert asked.bearing({"table"}, ()) == 0.0


def test_further_passages_are_asked_for_once() -> None:
    search = search_of()
    ranked = ranked_of({0: 0.9, 3: 0.85})
    wanted = search.wanted(ranked)
    assert wanted[0] == record_id(1)
    assert record_id(2) in wanted
    assert record_id(4) not in wanted
    assert len(wanted) <= MAX_WANTED
    assert search.wanted(ranked) == ()


def test_what_a_hit_names_passes_what_is_only_alike_and_stays_behind_the_hit() -> None:
    search = search_of()
    ranked = ranked_of({0: 0.9, 3: 0.84})
    for _ in range(MAX_ROUNDS):
        wanted = search.wanted(ranked)
        places = [place for place in range(len(TEXTS)) if record_id(place) in wanted]
        if places:
            ranked = merge_ranked(ranked, ranked_of(dict.fromkeys(places, 0.8)))
    ordered = search.ranked(ranked)
    assert ids_of(ordered)[:2] == [record_id(0), record_id(1)]
    by_id = {item.candidate.record.record_id: item for item in ordered}
    assert by_id[record_id(1)].via_record_ids == (record_id(0),)
    assert by_id[record_id(1)].explanation.order_score < by_id[record_id(0)].explanation.order_score


def test_a_question_that_names_nothing_known_keeps_order_and_scores() -> None:
    texts = ("water boils at a hundred degrees", "ice melts when it is warm")
    search = search_of("when does water boil", texts)
    ranked = ranked_of({0: 0.9, 1: 0.85}, texts)
    assert search.wanted(ranked) == ()
    assert search.ranked(ranked) == ranked


def test_several_graphs_lift_a_passage_once() -> None:
    ranked = ranked_of({0: 0.9, 3: 0.84, 1: 0.8})
    first, second = search_of(), search_of()
    assert rank_by_graphs((first, second), ranked) == rank_by_graphs((first,), ranked)
    assert rank_by_graphs((), ranked) == ranked


@pytest.mark.parametrize("question", ["", "?", "A" * 5_000, "欧拉的老师的儿子做了哪些贡献", "Anna Berg, " * 400])
def test_odd_questions_are_searched_too(question: str) -> None:
    ranked = ranked_of({0: 0.9, 3: 0.84})
    search = search_of(question)
    assert len(search.wanted(ranked)) <= MAX_WANTED
    assert sorted(ids_of(search.ranked(ranked))) == sorted(ids_of(ranked))
