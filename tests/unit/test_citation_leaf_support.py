"""Which chunks beneath a summary bear out what it is cited for."""

import pytest

from corpusmesh_core.citation import MAX_PLACES, CitableText, supporting_leaves

_LEAVES = [
    CitableText(0, "The harbour was built in 1878. It has two docks.", "Harbour"),
    CitableText(1, "Ferries leave at noon, and in summer also at nine.", "Timetable"),
    CitableText(2, "The lighthouse stands on a rock and is 42 metres high.", "Lighthouse"),
]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("Ferries leave at noon, and in summer also at nine.", (1,)),
        ("FERRIES leave at noon; and in summer, also at nine", (1,)),
        ("The rock carries a lighthouse of 42 metres.", (2,)),
        ("The harbour has two docks, and its lighthouse is 42 metres high.", (2, 0)),
        ("海港建于一八七八年。", (0,)),
        ("", (0,)),
    ],
)
def test_a_statement_leads_to_the_chunks_that_hold_it(statement: str, expected: tuple[int, ...]) -> None:
    assert supporting_leaves([statement], _LEAVES) == expected


def test_all_statements_lead_somewhere_and_no_more_than_a_few_places() -> None:
    statements = ["Ferries leave at noon.", "The harbour was built in 1878.", "The lighthouse stands on a rock."]
    assert supporting_leaves(statements, _LEAVES) == (1, 0, 2)
    many = [CitableText(place, f"Dock {place} holds {place} barges of grain and coal.") for place in range(30)]
    found = supporting_leaves([leaf.text for leaf in many], many)
    assert found == tuple(range(MAX_PLACES))
    assert supporting_leaves(["Anything."], []) == ()


def test_chinese_sentences_are_found_whatever_stands_between_them() -> None:
    leaves = [CitableText(0, "港口建于1878年。它有两个船坞。"), CitableText(1, "渡轮中午开船，夏天九点也开。")]
    assert supporting_leaves(["渡轮中午开船，夏天九点也开"], leaves) == (1,)
    assert supporting_leaves(["夏天渡轮在九点开船。"], leaves) == (1,)
