"""What people give for graphs: corrections, triples, and the proof that nothing of a document is left."""

import uuid
from typing import Any

import pytest

from corpusmesh.graph.v1 import graph_input_service_pb2 as pb
from corpusmesh.graph.v1 import graph_service_pb2 as read_pb
from corpusmesh_core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from corpusmesh_core.graphs.keys import entity_key, key_text
from corpusmesh_core.graphs.segments import SegmentDocument, pack_segment
from corpusmesh_core.graphs.subgraphs import ExtractedDocument, pack_extracted
from corpusmesh_core.tenancy import Role
from corpusmesh_graph.handlers.triples import MAX_TRIPLES
from corpusmesh_runtime.build_keys import build_key, found_key
from tests.support.canned_graphs import KB, GraphMesh, harbour
from tests.unit.test_graph_handlers import CONTEXT, GRAPH, calling

TRIPLES = f"knowledgeBases/{KB}/documents/open/triples"
OPEN = f"knowledgeBases/{KB}/documents/open"
SECRET = f"knowledgeBases/{KB}/documents/secret"


def name_of(title: str) -> str:
    return f"{GRAPH}/entities/{key_text(entity_key(title))}"


async def correct(mesh: GraphMesh, request_id: str = "", **change: Any) -> pb.CreateCorrectionResponse:
    request = pb.CreateCorrectionRequest(parent=GRAPH, correction=pb.Correction(**change), request_id=request_id)
    return await mesh.doors().inputs.CreateCorrection(request, CONTEXT)


CHANGES: list[tuple[str, Any]] = [
    ("merge", pb.MergeEntities(entities=[name_of("North Quay")], into=name_of("Harbour Board"))),
    ("split", pb.SplitEntity(entity=name_of("Anna Berg"), documents=[SECRET], new_title="Anna Berg (spy)")),
    ("keep_apart", pb.KeepApart(entity=name_of("Anna Berg"), other_entity=name_of("Carl Dahl"))),
    ("rename", pb.RenameEntity(entity=name_of("Harbour Board"), new_title="Port Authority")),
    ("edit_entity", pb.EditEntity(entity=name_of("Harbour Board"), type="authority", description="It rules the port.")),
    ("delete_entity", pb.DeleteEntity(entity=name_of("North Quay"))),
    (
        "edit_relation",
        pb.EditRelation(entity=name_of("Anna Berg"), other_entity=name_of("Harbour Board"), predicate="leads"),
    ),
    ("delete_relation", pb.DeleteRelation(entity=name_of("Anna Berg"), other_entity=name_of("Carl Dahl"))),
]


@pytest.mark.parametrize(("kind", "change"), CHANGES)
async def test_a_correction_is_kept_listed_and_begins_a_build(kind: str, change: Any) -> None:
    mesh = harbour()
    with calling("ann"):
        made = await correct(mesh, **{kind: change})
        page = await mesh.doors().inputs.ListCorrections(pb.ListCorrectionsRequest(parent=GRAPH), CONTEXT)
    assert made.run == f"knowledgeBases/{KB}/runs/run-1"
    assert list(page.corrections) == [made.correction]
    assert (made.correction.user, made.correction.name) == ("ann", f"{GRAPH}/corrections/c1")
    assert getattr(made.correction, kind) == change
    assert mesh.audited == [("graph.correct", f"{GRAPH}/corrections/c1")]


async def test_entities_are_named_by_key_by_resource_name_or_as_they_are_written() -> None:
    mesh = harbour()
    key = key_text(entity_key("Harbour Board"))
    with calling("ann"):
        for name in ("the Harbour Board", key, name_of("Harbour Board")):
            made = await correct(mesh, rename=pb.RenameEntity(entity=name, new_title="Port Authority"))
            assert made.correction.rename.entity == name_of("Harbour Board")


async def test_the_same_request_id_corrects_once() -> None:
    mesh = harbour()
    request_id = str(uuid.uuid4())
    change = pb.DeleteEntity(entity="North Quay")
    with calling("ann"):
        first = await correct(mesh, request_id, delete_entity=change)
        assert await correct(mesh, request_id, delete_entity=change) == first
    assert (len(mesh.kept), len(mesh.orders)) == (1, 1)


@pytest.mark.parametrize("title", ["Carl Dahl", "Nobody"])
async def test_what_a_caller_does_not_see_they_cannot_correct(title: str) -> None:
    mesh = harbour()
    with calling("bob"):
        for change in (
            {"delete_entity": pb.DeleteEntity(entity=title)},
            {"merge": pb.MergeEntities(entities=["Anna Berg"], into=title)},
            {"keep_apart": pb.KeepApart(entity="Anna Berg", other_entity=title)},
        ):
            with pytest.raises(NotFoundError) as caught:
                await correct(mesh, **change)
            assert caught.value.reason == "GRAPH_ENTITY_NOT_FOUND"
    assert (mesh.kept, mesh.orders, mesh.audited) == ([], [], [])


@pytest.mark.parametrize("document", [SECRET, f"knowledgeBases/{KB}/documents/unknown"])
async def test_a_split_names_documents_that_the_caller_sees_to_speak_of_the_entity(document: str) -> None:
    change = pb.SplitEntity(entity="Anna Berg", documents=[document], new_title="Another")
    with calling("bob"), pytest.raises(NotFoundError) as caught:
        await correct(harbour(), split=change)
    assert caught.value.reason == "DOCUMENT_NOT_FOUND"


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"merge": pb.MergeEntities(into="Anna Berg")},
        {"merge": pb.MergeEntities(entities=["Anna Berg"], into="Anna Berg")},
        {"merge": pb.MergeEntities(entities=["Anna Berg"] * 101, into="Carl Dahl")},
        {"split": pb.SplitEntity(entity="Anna Berg", documents=[], new_title="Other")},
        {"split": pb.SplitEntity(entity="Anna Berg", documents=["knowledgeBases/x/documents/y"], new_title="Other")},
        {"rename": pb.RenameEntity(entity="Anna Berg", new_title="")},
        {"rename": pb.RenameEntity(entity="Anna Berg", new_title="x" * 129)},
        {"rename": pb.RenameEntity(entity="", new_title="Other")},
        {"rename": pb.RenameEntity(entity="knowledgeBases/other/graph/entities/0123456789abcdef", new_title="Other")},
        {"edit_entity": pb.EditEntity(entity="Anna Berg")},
        {"edit_entity": pb.EditEntity(entity="Anna Berg", description="x" * 4001)},
        {"keep_apart": pb.KeepApart(entity="Anna Berg", other_entity="anna berg")},
        {"edit_relation": pb.EditRelation(entity="Anna Berg", other_entity="Carl Dahl")},
        {"delete_relation": pb.DeleteRelation(entity="Anna Berg", other_entity="A. Berg")},
    ],
)
async def test_corrections_that_say_nothing_or_too_much_are_refused(change: dict[str, Any]) -> None:
    mesh = harbour()
    with calling("ann"), pytest.raises(InvalidArgumentError):
        await correct(mesh, **change)
    assert mesh.kept == []


async def test_from_whom_something_is_hidden_sees_their_own_corrections_and_those_of_visible_entities() -> None:
    mesh = harbour()
    handlers = mesh.doors().inputs
    with calling("ann"):
        hidden = (await correct(mesh, delete_entity=pb.DeleteEntity(entity="Carl Dahl"))).correction
        shown = (await correct(mesh, rename=pb.RenameEntity(entity="North Quay", new_title="Quay 1"))).correction
    with calling("bob"):
        own = (await correct(mesh, delete_entity=pb.DeleteEntity(entity="North Quay"))).correction
        page = await handlers.ListCorrections(pb.ListCorrectionsRequest(parent=GRAPH), CONTEXT)
        assert [one.name for one in page.corrections] == [shown.name, own.name]
        for name in (hidden.name, f"{GRAPH}/corrections/unknown"):
            with pytest.raises(NotFoundError) as caught:
                await handlers.DeleteCorrection(pb.DeleteCorrectionRequest(name=name), CONTEXT)
            assert caught.value.reason == "GRAPH_CORRECTION_NOT_FOUND"
        request = pb.DeleteCorrectionRequest(name=own.name, request_id=str(uuid.uuid4()))
        first = await handlers.DeleteCorrection(request, CONTEXT)
        assert await handlers.DeleteCorrection(request, CONTEXT) == first
    assert first.run
    assert [row.correction_id for row in mesh.kept] == ["c1", "c2"]


async def test_pages_of_corrections_follow_one_another() -> None:
    mesh = harbour()
    with calling("ann"):
        for title in ("One", "Two", "Three"):
            await correct(mesh, rename=pb.RenameEntity(entity="Anna Berg", new_title=title))
        seen: list[str] = []
        token = ""
        for _ in range(3):
            request = pb.ListCorrectionsRequest(parent=GRAPH, page_size=1, page_token=token)
            page = await mesh.doors().inputs.ListCorrections(request, CONTEXT)
            seen += [one.rename.new_title for one in page.corrections]
            token = page.next_page_token
    assert (seen, token) == (["One", "Two", "Three"], "")


async def test_corrections_that_do_not_fit_into_a_page_begin_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = harbour()
    monkeypatch.setattr("corpusmesh_runtime.page_tokens._MAX_PAGE_BYTES", 300)
    titles = [f"Title {number}" for number in range(5)]
    with calling("ann"):
        for title in titles:
            await correct(mesh, rename=pb.RenameEntity(entity="Anna Berg", new_title=title))
        seen: list[str] = []
        token, page_count = "", 0
        while token or not page_count:
            request = pb.ListCorrectionsRequest(parent=GRAPH, page_size=4, page_token=token)
            page = await mesh.doors().inputs.ListCorrections(request, CONTEXT)
            seen += [one.rename.new_title for one in page.corrections]
            token, page_count = page.next_page_token, page_count + 1
    assert seen == titles
    assert page_count > 2


async def test_what_is_given_is_kept_even_where_no_build_can_begin() -> None:
    mesh = harbour()
    mesh.is_busy = True
    with calling("ann"):
        made = await correct(mesh, delete_entity=pb.DeleteEntity(entity="North Quay"))
    assert (made.run, len(mesh.kept)) == ("", 1)


def triple(**fields: str) -> pb.Triple:
    return pb.Triple(**({"subject": "Anna Berg", "predicate": "chairs", "object": "Harbour Board"} | fields))


async def test_triples_are_put_read_and_deleted_once() -> None:
    mesh = harbour()
    handlers = mesh.doors().inputs
    quay = triple(object="North Quay", object_type="geo")
    given = [triple(passage="She chairs it."), quay, quay]
    put = pb.PutTriplesRequest(name=TRIPLES, triples=given, request_id=str(uuid.uuid4()))
    with calling("ann"):
        assert await handlers.GetTriples(pb.GetTriplesRequest(name=TRIPLES), CONTEXT) == pb.Triples(name=TRIPLES)
        for _ in range(2):
            response = await handlers.PutTriples(put, CONTEXT)
            assert (response.triple_count, response.run) == (2, f"knowledgeBases/{KB}/runs/run-1")
        found = await handlers.GetTriples(pb.GetTriplesRequest(name=TRIPLES), CONTEXT)
        assert (list(found.triples), found.HasField("update_time")) == (given[:2], True)
        delete = pb.DeleteTriplesRequest(name=TRIPLES, request_id=str(uuid.uuid4()))
        first = await handlers.DeleteTriples(delete, CONTEXT)
        assert await handlers.DeleteTriples(delete, CONTEXT) == first
        assert first.run
        # There are none any more: nothing is built for that.
        assert (await handlers.DeleteTriples(pb.DeleteTriplesRequest(name=TRIPLES), CONTEXT)).run == ""
    assert mesh.audited == [("graph.put_triples", TRIPLES), ("graph.delete_triples", TRIPLES)]


async def test_what_was_given_can_be_taken_back_where_no_graph_is_made_any_more() -> None:
    mesh = harbour()
    handlers = mesh.doors().inputs
    with calling("ann"):
        made = await correct(mesh, delete_entity=pb.DeleteEntity(entity="North Quay"))
        await handlers.PutTriples(pb.PutTriplesRequest(name=TRIPLES, triples=[triple()]), CONTEXT)
        mesh.config = {}
        gone = await handlers.DeleteTriples(pb.DeleteTriplesRequest(name=TRIPLES), CONTEXT)
        undone = await handlers.DeleteCorrection(pb.DeleteCorrectionRequest(name=made.correction.name), CONTEXT)
    assert (gone.run, undone.run, mesh.triples, mesh.kept) == ("", "", {}, [])
    assert len(mesh.orders) == 2


async def test_triples_of_a_hidden_document_and_of_an_unknown_one_answer_alike() -> None:
    handlers = harbour().doors().inputs
    with calling("bob"):
        for document in ("secret", "unknown"):
            name = f"knowledgeBases/{KB}/documents/{document}/triples"
            for answer in (
                handlers.PutTriples(pb.PutTriplesRequest(name=name, triples=[triple()]), CONTEXT),
                handlers.GetTriples(pb.GetTriplesRequest(name=name), CONTEXT),
                handlers.DeleteTriples(pb.DeleteTriplesRequest(name=name), CONTEXT),
            ):
                with pytest.raises(NotFoundError) as caught:
                    await answer
                assert caught.value.reason == "DOCUMENT_NOT_FOUND"


@pytest.mark.parametrize(
    "triples",
    [
        [],
        [triple(subject="")],
        [triple(subject="...")],
        [triple(predicate=" ")],
        [triple(object="the Anna Berg")],
        [triple(passage="x" * 1001)],
        [triple(subject_type="x" * 65)],
        [triple()] * (MAX_TRIPLES + 1),
        [triple(object=f"O {number}", passage="\U0001f6a2" * 1000) for number in range(600)],
    ],
)
async def test_triples_out_of_bounds_are_refused(triples: list[pb.Triple]) -> None:
    request = pb.PutTriplesRequest(name=TRIPLES, triples=triples)
    with calling("ann"), pytest.raises(InvalidArgumentError) as caught:
        await harbour().doors().inputs.PutTriples(request, CONTEXT)
    assert caught.value.reason == "GRAPH_TRIPLES_INVALID"


async def test_triples_need_the_method_that_reads_them() -> None:
    mesh = harbour()
    mesh.config = {"graph": {"methods": ["ner"]}}
    request = pb.PutTriplesRequest(name=TRIPLES, triples=[triple()])
    with calling("ann"), pytest.raises(FailedPreconditionError) as caught:
        await mesh.doors().inputs.PutTriples(request, CONTEXT)
    assert caught.value.reason == "GRAPH_TRIPLES_OFF"


async def test_viewers_give_nothing_and_verify_nothing() -> None:
    mesh = harbour()
    handlers = mesh.doors().inputs
    with calling("vic", Role.VIEWER):
        for answer in (
            correct(mesh, delete_entity=pb.DeleteEntity(entity="North Quay")),
            handlers.ListCorrections(pb.ListCorrectionsRequest(parent=GRAPH), CONTEXT),
            handlers.DeleteCorrection(pb.DeleteCorrectionRequest(name=f"{GRAPH}/corrections/c1"), CONTEXT),
            handlers.PutTriples(pb.PutTriplesRequest(name=TRIPLES, triples=[triple()]), CONTEXT),
            handlers.DeleteTriples(pb.DeleteTriplesRequest(name=TRIPLES), CONTEXT),
            handlers.VerifyErasure(pb.VerifyErasureRequest(name=GRAPH, document=OPEN), CONTEXT),
        ):
            with pytest.raises(NotFoundError):
                await answer


async def test_what_is_left_of_a_document_is_counted_until_nothing_is() -> None:
    mesh = harbour()
    handlers = mesh.doors().inputs
    request = pb.VerifyErasureRequest(name=GRAPH, document=SECRET)
    with calling("ann"):
        left = await handlers.VerifyErasure(request, CONTEXT)
        # Three entities, two relations and the report on both; four chunks.
        assert (left.record_count, left.subgraph_count, left.other_record_count, left.erased) == (6, 1, 4, False)
        del mesh.documents[2], mesh.subgraphs[2]
        mesh.gone["secret"] = (2,)
        mesh.published -= {2, 12, 22}
        mesh.index.records = [one for one in mesh.index.records if 2 not in one.sources]
        mesh.keep()
        assert await handlers.VerifyErasure(request, CONTEXT) == pb.VerifyErasureResponse(erased=True)
        never = pb.VerifyErasureRequest(name=GRAPH, document=f"knowledgeBases/{KB}/documents/never")
        assert await handlers.VerifyErasure(never, CONTEXT) == pb.VerifyErasureResponse(erased=True)


async def test_what_builds_have_left_behind_is_counted_until_it_is_swept() -> None:
    mesh = harbour()
    handlers = mesh.doors().inputs
    subgraph = mesh.subgraphs[2]
    del mesh.documents[2], mesh.subgraphs[2]
    mesh.gone["secret"] = (2,)
    mesh.published -= {2, 12, 22}
    mesh.index.records = [one for one in mesh.index.records if 2 not in one.sources]
    mesh.keep()
    assert mesh.row is not None
    found = {version: ExtractedDocument(bytes(16), bytes(16), subgraph) for version in (1, 3)}
    left = {
        build_key(mesh.row, "run-8", "segment-1"): pack_segment([SegmentDocument(2, 12, subgraph)]),
        build_key(mesh.row, "run-10", "part-1"): pack_segment([SegmentDocument(2, 13, subgraph)]),
        found_key(mesh.row, 2, 2, "aa"): pack_extracted({2: found[1]}),
    }
    # Written of others: what lies around the document tells nothing of it.
    mesh.artefacts[found_key(mesh.row, 1, 3, "bb")] = pack_extracted(found)
    mesh.artefacts[build_key(mesh.row, "run-8", "segment-2")] = pack_segment([SegmentDocument(1, 11, subgraph)])
    mesh.artefacts |= left
    request = pb.VerifyErasureRequest(name=GRAPH, document=SECRET)
    with calling("ann"):
        for count, key in zip((3, 2, 1), left, strict=True):
            answer = await handlers.VerifyErasure(request, CONTEXT)
            assert (answer.subgraph_count, answer.erased) == (count, False)
            del mesh.artefacts[key]
        assert await handlers.VerifyErasure(request, CONTEXT) == pb.VerifyErasureResponse(erased=True)


@pytest.mark.parametrize("document", ["secret", "unknown"])
async def test_nobody_tells_hidden_documents_from_unknown_ones_by_verifying(document: str) -> None:
    request = pb.VerifyErasureRequest(name=GRAPH, document=f"knowledgeBases/{KB}/documents/{document}")
    with calling("bob"), pytest.raises(NotFoundError) as caught:
        await harbour().doors().inputs.VerifyErasure(request, CONTEXT)
    assert caught.value.reason == "DOCUMENT_NOT_FOUND"


async def test_what_was_corrected_is_read_so_once_a_build_has_followed() -> None:
    mesh = harbour()
    graphs = mesh.doors().graphs
    pair = {"entity": "Anna Berg", "other_entity": "Harbour Board"}
    with calling("ann"):
        await correct(mesh, rename=pb.RenameEntity(entity="Harbour Board", new_title="Port Authority"))
        await correct(mesh, edit_entity=pb.EditEntity(entity="Anna Berg", description="Chair.", type="official"))
        await correct(mesh, edit_relation=pb.EditRelation(**pair, predicate="leads", keywords=["rule"]))
        await correct(mesh, delete_entity=pb.DeleteEntity(entity="North Quay"))
        await correct(mesh, delete_relation=pb.DeleteRelation(entity="Anna Berg", other_entity="Carl Dahl"))
        mesh.is_followed = True
        page = await graphs.ListEntities(read_pb.ListEntitiesRequest(parent=GRAPH), CONTEXT)
        assert {one.title for one in page.entities} == {"Anna Berg", "Carl Dahl", "Port Authority"}
        anna = (await graphs.GetEntity(read_pb.GetEntityRequest(name=name_of("Anna Berg")), CONTEXT)).entity
        assert (anna.description, anna.type, anna.degree) == ("Chair.", "official", 1)
        found = await graphs.ListRelations(read_pb.ListRelationsRequest(parent=GRAPH, **pair), CONTEXT)
        assert [(one.predicate, list(one.keywords)) for one in found.relations] == [("leads", ["rule"])]
        assert found.relations[0].target_title == "Port Authority"
        renamed = read_pb.GetEntityRequest(name=f"{GRAPH}/entities/-", title="Port Authority")
        assert (await graphs.GetEntity(renamed, CONTEXT)).entity.name == name_of("Harbour Board")


async def test_entities_that_were_merged_are_one_and_those_that_were_split_are_two() -> None:
    mesh = harbour()
    graphs = mesh.doors().graphs
    with calling("ann"):
        await correct(mesh, merge=pb.MergeEntities(entities=["North Quay"], into="Harbour Board"))
        await correct(mesh, split=pb.SplitEntity(entity="Anna Berg", documents=[SECRET], new_title="Anna Berg (spy)"))
        mesh.is_followed = True
        page = await graphs.ListEntities(read_pb.ListEntitiesRequest(parent=GRAPH), CONTEXT)
        assert {one.title for one in page.entities} >= {"Anna Berg", "Carl Dahl", "Harbour Board"}
        assert page.total_count == 4
        one = (await graphs.GetEntity(read_pb.GetEntityRequest(name=name_of("North Quay")), CONTEXT)).entity
        assert (one.title, one.document_count) == ("Harbour Board", 2)
        anna = (await graphs.GetEntity(read_pb.GetEntityRequest(name=name_of("Anna Berg")), CONTEXT)).entity
        assert (anna.description, anna.document_count) == ("She chairs the board.", 1)
        spy = (await graphs.GetEntity(read_pb.GetEntityRequest(name=name_of("Anna Berg (spy)")), CONTEXT)).entity
        assert spy.description == "She met Carl Dahl in secret."
    with calling("bob"), pytest.raises(NotFoundError):
        await graphs.GetEntity(read_pb.GetEntityRequest(name=name_of("Anna Berg (spy)")), CONTEXT)
