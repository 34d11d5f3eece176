"""How an evaluation counts hits that are summaries: by the words that they show, and by nothing beneath them."""

import pytest

from corpusmesh.retrieve.v1 import retrieval_service_pb2 as pb
from corpusmesh.type.v1 import place_pb2
from corpusmesh_core.evaluation.judging import GoldItem, holds
from corpusmesh_retrieve.evaluating.measuring import found_hit


def hit(*, document: str = "knowledgeBases/kb/documents/d", layer: int = 1) -> pb.SearchHit:
    return pb.SearchHit(
        record_id="1-tree_node-a",
        kind="tree_node",
        document=document,
        text="The harbour closes at nine in the evening. The mill grinds rye alone.",
        place=place_pb2.Place(page=3, boxes=[place_pb2.Box(page=4)]),
        layer=layer,
        leaves=[pb.HitLeaf(record_id="1-0", document=document, place=place_pb2.Place(page=3))],
    )


@pytest.mark.parametrize(
    ("gold", "is_found"),
    [
        (GoldItem("d", "The mill grinds rye alone."), True),
        (GoldItem("d", "The mill was built in 1714."), False),
        (GoldItem("d", page=3), False),
        (GoldItem("d", "The mill grinds rye alone.", page=3), False),
        (GoldItem("e", "The mill grinds rye alone."), False),
    ],
)
def test_a_summary_counts_by_the_words_that_it_quotes_and_stands_on_no_page(gold: GoldItem, is_found: bool) -> None:
    assert holds(found_hit(hit()), gold) is is_found


def test_a_summary_of_several_documents_counts_for_none_of_them() -> None:
    assert not holds(found_hit(hit(document="")), GoldItem("d", "The mill grinds rye alone."))
    assert holds(found_hit(hit(layer=0)), GoldItem("d", page=4)), "a chunk stands on its pages"
