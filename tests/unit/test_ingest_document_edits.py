"""What people ask of the chunks that they see, against a plain list that does what they say."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.chunking import WordTokenCounter
from corpusmesh_core.chunking.edits import ChunkEdit, apply_edits, is_disabled
from corpusmesh_core.documents import Chunk, ChunkRole
from corpusmesh_core.errors import FailedPreconditionError, InternalError, InvalidArgumentError
from corpusmesh_core.ports.edits import ChunkEditRow, EditState, edit_id_of
from corpusmesh_ingest.edit_planning import ChunkFields, EditPlanner
from corpusmesh_ingest.edits import edit_of_row, stored_edit

COUNTER = WordTokenCounter()
BUDGET = 40


def chunk(position: int, text: str, **values: object) -> Chunk:
    return replace(Chunk(position, text, (), 1, (), len(text.split())), **values)  # type: ignore[arg-type]


@dataclass
class Document:
    """A document whose versions differ by edits alone."""

    template: list[Chunk]
    edits: list[ChunkEdit] = field(default_factory=list)
    ordinal: int = 1

    def chunks(self) -> list[Chunk]:
        result = apply_edits(self.template, self.edits, COUNTER, BUDGET)
        assert not result.unplaced, "every edit of what is seen finds its place"
        return list(result.chunks)

    def planner(self) -> EditPlanner:
        return EditPlanner(self.chunks(), self.edits)

    def commit(self, planner: EditPlanner) -> tuple[int, ...]:
        plan = planner.plan()
        self.ordinal += 1
        self.edits = [edit for edit in self.edits if edit.edit_id not in plan.withdrawn]
        for place, edit in enumerate(plan.edits):
            row = _row(edit, edit_id_of(self.ordinal, place))
            self.edits.append(edit_of_row(row))
        return plan.places

    def texts(self) -> list[str]:
        return [entry.text for entry in self.chunks()]


def _row(edit: ChunkEdit, edit_id: str) -> ChunkEditRow:
    stored = stored_edit(edit)
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return ChunkEditRow(
        "t",
        "kb",
        "d",
        edit_id,
        1,
        stored.anchor,
        stored.change,
        EditState.PLACED,
        "u",
        moment,
        moment,
    )


def document(count: int = 4) -> Document:
    return Document([chunk(place, f"This is what part number {place} of the handbook says.") for place in range(count)])


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["create", "update", "delete", "off", "on"]), st.integers(0, 9), st.integers(0, 10**6)),
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(OPERATIONS, st.integers(1, 3))
def test_every_edit_does_what_it_says_to_the_chunks_that_its_author_saw(
    operations: list[tuple[str, int, int]], calls: int
) -> None:
    made = document()
    model = [(text, True) for text in made.texts()]
    for start in range(0, len(operations), max(1, calls)):
        planner, seen = made.planner(), made.chunks()
        # What a call does to each chunk that its author saw, and what it puts behind it.
        after: dict[int, list[tuple[str, bool]]] = {}
        now: dict[int, tuple[str, bool] | None] = dict(enumerate(model))
        for kind, where, number in operations[start : start + max(1, calls)]:
            place = where % (len(seen) + 1) - 1
            if kind == "create":
                text = f"Somebody added the sentence with number {number} here."
                planner.create(ChunkFields(text=text), seen[place] if place >= 0 else None)
                after.setdefault(place, []).insert(0, (text, True))
                continue
            current = now.get(place)
            if current is None:
                continue
            if kind == "delete":
                planner.delete(seen[place])
                now[place] = None
            elif kind == "update":
                text = f"It was written anew with the number {number}."
                planner.update(seen[place], ChunkFields(text=text))
                now[place] = (text, current[1])
            else:
                planner.update(seen[place], ChunkFields(enabled=kind == "on"))
                now[place] = (current[0], kind == "on")
        made.commit(planner)
        model = list(after.get(-1, []))
        for place in range(len(seen)):
            entry = now[place]
            model += [entry] if entry is not None else []
            model += after.get(place, [])
        assert [(entry.text, not is_disabled(entry)) for entry in made.chunks()] == model


def test_an_added_chunk_is_changed_in_its_place_among_other_added_ones() -> None:
    made = document(1)
    planner = made.planner()
    for text in ("Third.", "Second.", "First."):
        planner.create(ChunkFields(text=text), made.chunks()[0])
    made.commit(planner)
    planner = made.planner()
    planner.update(made.chunks()[2], ChunkFields(text="Second, changed.", keywords=("word",)))
    made.commit(planner)
    assert made.texts()[1:] == ["First.", "Second, changed.", "Third."]
    assert made.chunks()[2].keywords == ("word",)


def test_deleting_an_added_chunk_undoes_the_edit_and_makes_none() -> None:
    made = document(1)
    planner = made.planner()
    planner.create(ChunkFields(text="Added."), made.chunks()[0])
    assert made.commit(planner) == (0,)
    planner = made.planner()
    planner.delete(made.chunks()[1])
    assert made.commit(planner) == (-1,)
    assert made.edits == []


def test_what_is_left_alone_stays_as_it_was() -> None:
    made = document(2)
    for fields in (ChunkFields(keywords=("one",)), ChunkFields(questions=("Why?",)), ChunkFields(tags={"red": 2.0})):
        planner = made.planner()
        planner.update(made.chunks()[1], fields)
        made.commit(planner)
    after = made.chunks()[1]
    assert (after.keywords, after.questions, after.tags) == (("one",), ("Why?",), {"red": 2.0})
    assert after.text == made.template[1].text
    assert after.is_edited
    assert not made.chunks()[0].is_edited


def test_a_further_part_of_a_long_text_is_refused_and_its_first_part_is_not() -> None:
    made = document(1)
    planner = made.planner()
    planner.update(made.chunks()[0], ChunkFields(text=" ".join(f"Sentence {n} is not short." for n in range(30))))
    made.commit(planner)
    parts = made.chunks()
    assert len(parts) > 1
    with pytest.raises(FailedPreconditionError, match="first part"):
        made.planner().update(parts[1], ChunkFields(text="x"))
    made.planner().update(parts[0], ChunkFields(text="x"))


def test_a_chunk_with_an_edit_that_was_withdrawn_is_refused() -> None:
    made = document(1)
    planner = made.planner()
    planner.update(made.chunks()[0], ChunkFields(text="Changed."))
    made.commit(planner)
    seen = made.chunks()
    made.edits = []
    with pytest.raises(FailedPreconditionError, match="withdrawn"):
        EditPlanner(seen, made.edits).update(seen[0], ChunkFields(text="Again."))


def test_parents_and_what_the_same_call_deletes_are_refused() -> None:
    made = document(2)
    planner = made.planner()
    with pytest.raises(InvalidArgumentError, match="larger piece"):
        planner.update(chunk(0, "A parent.", role=ChunkRole.PARENT), ChunkFields(text="x"))
    planner.delete(made.chunks()[0])
    with pytest.raises(InvalidArgumentError, match="same call"):
        planner.update(made.chunks()[0], ChunkFields(text="x"))


def test_a_row_that_is_no_edit_is_an_internal_error() -> None:
    with pytest.raises(InternalError):
        edit_of_row(replace(_row(ChunkEdit("1", _ACTION, _ANCHOR), "1"), change={"action": "burn"}))


_PLAN = document(1)
_PLANNER = _PLAN.planner()
_PLANNER.delete(_PLAN.chunks()[0])
_ACTION, _ANCHOR = _PLANNER.plan().edits[0].action, _PLANNER.plan().edits[0].anchor
