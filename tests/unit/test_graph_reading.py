"""What callers read of graphs: of hidden documents nothing, in counts and ranks neither."""

from typing import Any, cast

import pytest

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh_core.errors import InvalidArgumentError, NotFoundError, OverloadedError
from corpusmesh_core.graphs.keys import entity_key, key_text
from corpusmesh_core.graphs.resolution import ResolvedPair, pack_pairs
from corpusmesh_core.graphs.values import Subgraph
from corpusmesh_core.records import Record, RecordKind, derived_record_id
from corpusmesh_core.tenancy import Role
from corpusmesh_graph.config import GraphServiceSettings
from tests.support.canned_graphs import KB, GraphMesh, entity, harbour
from tests.unit.test_graph_handlers import CONTEXT, GRAPH, calling


def name_of(title: str) -> str:
    return f"{GRAPH}/entities/{key_text(entity_key(title))}"


async def entities(mesh: GraphMesh, **fields: Any) -> pb.ListEntitiesResponse:
    return await mesh.doors().graphs.ListEntities(pb.ListEntitiesRequest(parent=GRAPH, **fields), CONTEXT)


async def test_entities_are_listed_by_rank_with_what_is_visible_of_them() -> None:
    mesh = harbour()
    with calling("ann"):
        page = await entities(mesh)
    assert page.total_count == 4
    assert sum(one.rank for one in page.entities) == pytest.approx(1.0, abs=1e-5)
    assert [one.rank for one in page.entities] == sorted((one.rank for one in page.entities), reverse=True)
    board = next(one for one in page.entities if one.title == "Harbour Board")
    assert (board.degree, board.document_count, board.chunk_count, board.type) == (3, 2, 4, "organization")
    with calling("bob"):
        page = await entities(mesh)
    assert {one.title for one in page.entities} == {"Anna Berg", "Harbour Board", "North Quay"}
    board = next(one for one in page.entities if one.title == "Harbour Board")
    assert (board.degree, board.document_count, board.chunk_count) == (2, 1, 3)
    assert sum(one.rank for one in page.entities) == pytest.approx(1.0, abs=1e-5)


async def test_what_a_caller_sees_is_as_if_the_hidden_document_were_not_there() -> None:
    alone = harbour()
    alone.published -= {2, 12, 22}
    with calling("bob"):
        seen, known = await entities(harbour()), await entities(alone)
        shown = await harbour().doors().graphs.GetEntity(pb.GetEntityRequest(name=name_of("Anna Berg")), CONTEXT)
        expected = await alone.doors().graphs.GetEntity(pb.GetEntityRequest(name=name_of("Anna Berg")), CONTEXT)
    assert seen.entities == known.entities
    assert shown == expected
    assert "secret" not in str(shown)


async def test_words_find_the_entity_of_that_name_first() -> None:
    mesh = harbour()
    with calling("ann"):
        assert [one.title for one in (await entities(mesh, query="a. berg")).entities] == ["Anna Berg"]
        assert [one.title for one in (await entities(mesh, query="the quay")).entities] == ["North Quay"]
        assert [one.title for one in (await entities(mesh, query="carl")).entities] == ["Carl Dahl"]
        assert not (await entities(mesh, query="nobody")).entities
    with calling("bob"):
        assert await entities(mesh, query="carl") == pb.ListEntitiesResponse()


async def test_types_narrow_a_list() -> None:
    with calling("ann"):
        page = await entities(harbour(), types=["Person"])
        assert {one.title for one in page.entities} == {"Anna Berg", "Carl Dahl"}
        assert page.total_count == 2
        page = await entities(harbour(), types=["person"], query="anna")
        assert [one.title for one in page.entities] == ["Anna Berg"]


async def test_pages_follow_one_another_to_the_end_and_are_of_one_listing() -> None:
    mesh = harbour()
    seen: list[str] = []
    token = ""
    with calling("ann"):
        for _ in range(4):
            page = await entities(mesh, page_size=1, page_token=token)
            seen += [one.title for one in page.entities]
            token = page.next_page_token
        assert (len(set(seen)), token) == (4, "")
        first = await entities(mesh, page_size=1)
        with pytest.raises(InvalidArgumentError):
            await entities(mesh, query="anna", page_token=first.next_page_token)


@pytest.mark.parametrize(
    "fields", [{"query": "x" * 257}, {"types": ["t"] * 33}, {"page_size": -1}, {"page_token": "none"}]
)
async def test_a_list_out_of_bounds_is_refused(fields: dict[str, Any]) -> None:
    with calling("ann"), pytest.raises(InvalidArgumentError):
        await entities(harbour(), **fields)


async def test_an_entity_is_described_by_visible_documents() -> None:
    mesh = harbour()
    request = pb.GetEntityRequest(name=f"{GRAPH}/entities/-", title="Anna Berg")
    with calling("ann"):
        found = await mesh.doors().graphs.GetEntity(request, CONTEXT)
    assert found.entity.name == name_of("Anna Berg")
    assert found.entity.description == "She chairs the board.\nShe met Carl Dahl in secret."
    assert (list(found.entity.aliases), list(found.entity.methods)) == (["A. Berg"], ["ner"])
    assert list(found.documents) == [f"knowledgeBases/{KB}/documents/{one}" for one in ("open", "secret")]
    assert [one.record_id for one in found.passages] == ["1-0", "1-1", "2-0"]
    assert found.passages[0].place.version == f"knowledgeBases/{KB}/documents/open/versions/1"
    with calling("bob"):
        found = await mesh.doors().graphs.GetEntity(request, CONTEXT)
    assert found.entity.description == "She chairs the board."
    assert list(found.documents) == [f"knowledgeBases/{KB}/documents/open"]
    assert [one.record_id for one in found.passages] == ["1-0", "1-1"]


async def test_an_entity_without_a_description_is_described_by_sentences() -> None:
    with calling("ann"):
        request = pb.GetEntityRequest(name=name_of("North Quay"))
        found = await harbour().doors().graphs.GetEntity(request, CONTEXT)
    assert found.entity.description == "Of North Quay it is said."


async def test_what_a_model_merged_is_told_to_whom_sees_all_of_it() -> None:
    mesh = harbour()
    mesh.published |= {23, 24}
    keys = sorted(key_text(entity_key(name)) for name in ("Anna Berg", "Harbour Board"))
    for ordinal, sources, key, text in (
        (23, (1, 2), key_text(entity_key("Anna Berg")), "Chair, and friend of Carl."),
        (24, (1,), "".join(keys), "Anna has chaired the board for years."),
    ):
        record_id = derived_record_id(cast(Any, ordinal), RecordKind.DESCRIPTION, key)
        mesh.index.records.append(
            Record(record_id, RecordKind.DESCRIPTION, KB, cast(Any, ordinal), cast(Any, sources), text)
        )
    mesh.keep(21, 22, 23, 24)
    request = pb.GetEntityRequest(name=name_of("Anna Berg"))
    pair = pb.GetRelationRequest(name=f"{GRAPH}/relations/{keys[0]}-{keys[1]}")
    with calling("ann"):
        # No model writes by these settings, so that nothing is asked.
        assert not (await mesh.doors().graphs.GetEntity(request, CONTEXT)).entity.merged_by_model
        mesh.config = {"graph": {"methods": ["light", "triples"]}}
        found = (await mesh.doors().graphs.GetEntity(request, CONTEXT)).entity
        assert (found.description, found.merged_by_model) == ("Chair, and friend of Carl.", True)
    with calling("bob"):
        found = (await mesh.doors().graphs.GetEntity(request, CONTEXT)).entity
        assert (found.description, found.merged_by_model) == ("She chairs the board.", False)
        relation = (await mesh.doors().graphs.GetRelation(pair, CONTEXT)).relation
        assert (relation.description, relation.merged_by_model) == ("Anna has chaired the board for years.", True)


@pytest.mark.parametrize("title", ["Carl Dahl", "Nobody"])
async def test_a_hidden_entity_and_an_unknown_one_answer_alike(title: str) -> None:
    handlers = harbour().doors().graphs
    with calling("bob"):
        for answer in (
            handlers.GetEntity(pb.GetEntityRequest(name=name_of(title)), CONTEXT),
            handlers.GetNeighbourhood(pb.GetNeighbourhoodRequest(name=name_of(title)), CONTEXT),
            handlers.ListRelations(pb.ListRelationsRequest(parent=GRAPH, entity=title), CONTEXT),
        ):
            with pytest.raises(NotFoundError) as caught:
                await answer
            assert (caught.value.reason, caught.value.metadata) == ("GRAPH_ENTITY_NOT_FOUND", {})


@pytest.mark.parametrize(
    ("name", "title"),
    [
        (f"{GRAPH}/entities/-", ""),
        (f"{GRAPH}/entities/-", "x" * 129),
        (f"{GRAPH}/entities/{'0' * 16}", "Anna"),
        (f"{GRAPH}/entities/XYZ", ""),
        ("knowledgeBases/handbook/entities/a", ""),
    ],
)
async def test_names_of_entities_of_another_shape_are_refused(name: str, title: str) -> None:
    with calling("ann"), pytest.raises(InvalidArgumentError):
        await harbour().doors().graphs.GetEntity(pb.GetEntityRequest(name=name, title=title), CONTEXT)


async def relations(mesh: GraphMesh, **fields: Any) -> pb.ListRelationsResponse:
    return await mesh.doors().graphs.ListRelations(pb.ListRelationsRequest(parent=GRAPH, **fields), CONTEXT)


def ends(page: pb.ListRelationsResponse) -> set[frozenset[str]]:
    return {frozenset({one.source_title, one.target_title}) for one in page.relations}


async def test_relations_are_listed_of_all_of_an_entity_and_of_a_pair() -> None:
    mesh = harbour()
    with calling("ann"):
        page = await relations(mesh)
        weights = [one.weight for one in page.relations]
        assert (page.total_count, weights) == (4, sorted(weights, reverse=True))
        assert len((await relations(mesh, entity="Carl Dahl")).relations) == 2
        assert len((await relations(mesh, entity="Carl Dahl", other_entity=name_of("North Quay"))).relations) == 0
        pair = (await relations(mesh, entity="Anna Berg", other_entity="Harbour Board")).relations[0]
        with pytest.raises(InvalidArgumentError):
            await relations(mesh, other_entity="Anna Berg")
    assert (pair.predicate, list(pair.keywords), pair.chunk_count) == ("chairs", ["office"], 2)
    # Read from source to target, whichever key is the smaller.
    assert (pair.source_title, pair.target_title) == ("Anna Berg", "Harbour Board")
    assert pair.source == name_of("Anna Berg")
    with calling("bob"):
        assert ends(await relations(mesh)) == {
            frozenset({"Anna Berg", "Harbour Board"}),
            frozenset({"Harbour Board", "North Quay"}),
        }


async def test_a_relation_is_read_with_its_passages_or_answers_as_an_unknown_one() -> None:
    mesh = harbour()
    with calling("ann"):
        listed = (await relations(mesh, entity="Anna Berg", other_entity="Carl Dahl")).relations[0]
        found = await mesh.doors().graphs.GetRelation(pb.GetRelationRequest(name=listed.name), CONTEXT)
    assert (found.relation, [one.record_id for one in found.passages]) == (listed, ["2-0"])
    unknown = f"{GRAPH}/relations/{key_text(entity_key('Anna Berg'))}-{key_text(entity_key('North Quay'))}"
    same = f"{GRAPH}/relations/{key_text(entity_key('Anna Berg'))}-{key_text(entity_key('Anna Berg'))}"
    for user, name in (("bob", listed.name), ("ann", unknown), ("ann", same)):
        with calling(user), pytest.raises(NotFoundError) as caught:
            await mesh.doors().graphs.GetRelation(pb.GetRelationRequest(name=name), CONTEXT)
        assert caught.value.reason == "GRAPH_RELATION_NOT_FOUND"


async def test_a_neighbourhood_grows_hop_by_hop_within_its_limits() -> None:
    mesh = harbour()
    handlers = mesh.doors().graphs

    async def around(**fields: Any) -> pb.GetNeighbourhoodResponse:
        return await handlers.GetNeighbourhood(
            pb.GetNeighbourhoodRequest(name=name_of("North Quay"), **fields), CONTEXT
        )

    with calling("ann"):
        near = await around()
        assert [(one.entity.title, one.hops) for one in near.neighbours] == [("North Quay", 0), ("Harbour Board", 1)]
        assert (len(near.relations), near.truncated) == (1, False)
        further = await around(hops=2)
        assert [one.hops for one in further.neighbours] == [0, 1, 2, 2]
        assert (len(further.relations), further.truncated) == (4, False)
        cut = await around(hops=2, max_entities=2)
        assert ([one.hops for one in cut.neighbours], len(cut.relations), cut.truncated) == ([0, 1], 1, True)
        cut = await around(hops=2, max_relations=1)
        assert (len(cut.relations), cut.truncated) == (1, True)
        for wrong in ({"hops": 5}, {"hops": -1}, {"max_entities": -1}):
            with pytest.raises(InvalidArgumentError):
                await around(**wrong)
    with calling("bob"):
        seen = await around(hops=4)
        assert {one.entity.title for one in seen.neighbours} == {"North Quay", "Harbour Board", "Anna Berg"}


async def test_an_export_holds_entities_then_relations_of_what_is_visible() -> None:
    mesh = harbour()
    request = pb.ExportGraphRequest(name=GRAPH)
    with calling("bob"):
        parts = [part async for part in mesh.doors().graphs.ExportGraph(request, CONTEXT)]
    assert [part.sequence for part in parts] == [1, 2, 3]
    assert (parts[0].entity_count, parts[0].relation_count) == (3, 2)
    assert parts[0].snapshot == f"knowledgeBases/{KB}/snapshots/7"
    assert {one.title for one in parts[1].entities} == {"Anna Berg", "Harbour Board", "North Quay"}
    assert [one.name for one in parts[1].entities] == sorted(one.name for one in parts[1].entities)
    known = {one.name for one in parts[1].entities}
    assert all({one.source, one.target} <= known for one in parts[2].relations)
    assert any(one.description == "She chairs the board." for one in parts[1].entities)
    plain = pb.ExportGraphRequest(name=GRAPH, without_descriptions=True)
    with calling("bob"):
        parts = [part async for part in mesh.doors().graphs.ExportGraph(plain, CONTEXT)]
    assert not any(one.description for one in parts[1].entities)


async def test_a_large_export_comes_in_messages_of_bounded_size() -> None:
    mesh = GraphMesh()
    fragments = [entity(f"Vessel {number}", 0, description="d" * 4000) for number in range(300)]
    mesh.say(1, "open", Subgraph(tuple(sorted(fragments, key=lambda one: one.key))))
    with calling("ann"):
        parts = [part async for part in mesh.doors().graphs.ExportGraph(pb.ExportGraphRequest(name=GRAPH), CONTEXT)]
    assert [len(part.entities) for part in parts] == [0, 250, 50]
    assert max(part.ByteSize() for part in parts) < 3 * 2**20


async def test_one_tenant_leaves_exports_to_others() -> None:
    mesh = harbour()
    mesh.settings = GraphServiceSettings(max_concurrent_exports=2)
    handlers = mesh.doors().graphs
    request = pb.ExportGraphRequest(name=GRAPH)
    with calling("ann"):
        first = cast(Any, handlers.ExportGraph(request, CONTEXT))
        await anext(first)
        with pytest.raises(OverloadedError, match="exported"):
            await anext(cast(Any, handlers.ExportGraph(request, CONTEXT)))
        await first.aclose()
        assert [part async for part in handlers.ExportGraph(request, CONTEXT)]


async def test_communities_are_listed_where_their_report_is_visible() -> None:
    mesh = harbour()
    request = pb.ListCommunitiesRequest(parent=GRAPH)
    with calling("ann"):
        page = await mesh.doors().graphs.ListCommunities(request, CONTEXT)
        assert [(one.level, one.title, one.by_model) for one in page.communities] == [
            (0, "Report b", True),
            (1, "Report a", False),
        ]
        assert page.communities[1].parent == page.communities[0].name
        fine = await mesh.doors().graphs.ListCommunities(pb.ListCommunitiesRequest(parent=GRAPH, level=1), CONTEXT)
        assert [one.title for one in fine.communities] == ["Report a"]
        coarse = await mesh.doors().graphs.ListCommunities(pb.ListCommunitiesRequest(parent=GRAPH, level=0), CONTEXT)
        assert [one.title for one in coarse.communities] == ["Report b"]
        first = await mesh.doors().graphs.ListCommunities(pb.ListCommunitiesRequest(parent=GRAPH, page_size=1), CONTEXT)
        again = pb.ListCommunitiesRequest(parent=GRAPH, page_size=1, page_token=first.next_page_token)
        second = await mesh.doors().graphs.ListCommunities(again, CONTEXT)
        assert [one.title for one in (*first.communities, *second.communities)] == ["Report b", "Report a"]
        assert second.next_page_token == ""
        with pytest.raises(InvalidArgumentError):
            await mesh.doors().graphs.ListCommunities(pb.ListCommunitiesRequest(parent=GRAPH, level=-1), CONTEXT)
    with calling("bob"):
        page = await mesh.doors().graphs.ListCommunities(request, CONTEXT)
    assert ([one.title for one in page.communities], page.total_count) == (["Report a"], 1)
    # Neither its parent, which is hidden, nor how much weightier others are.
    assert (page.communities[0].parent, page.communities[0].weight) == ("", 1.0)


async def test_one_caller_is_not_given_the_listing_kept_for_another() -> None:
    handlers = harbour().doors().graphs
    request = pb.ListCommunitiesRequest(parent=GRAPH)
    with calling("ann"):
        assert (await handlers.ListCommunities(request, CONTEXT)).total_count == 2
    with calling("bob"):
        assert (await handlers.ListCommunities(request, CONTEXT)).total_count == 1


async def test_a_community_is_read_with_its_report_its_entities_and_passages() -> None:
    mesh = harbour()
    request = pb.GetCommunityRequest(name=f"{GRAPH}/communities/{'b' * 16}")
    with calling("ann"):
        found = await mesh.doors().graphs.GetCommunity(request, CONTEXT)
    assert (found.community.report, found.community.entity_count) == ("What b is about.", 4)
    assert {one.title for one in found.entities} == {"Anna Berg", "Carl Dahl", "Harbour Board", "North Quay"}
    assert [one.record_id for one in found.passages] == ["2-0", "1-2"]
    for user, key in (("bob", "b" * 16), ("ann", "c" * 16)):
        request = pb.GetCommunityRequest(name=f"{GRAPH}/communities/{key}")
        with calling(user), pytest.raises(NotFoundError) as caught:
            await mesh.doors().graphs.GetCommunity(request, CONTEXT)
        assert caught.value.reason == "GRAPH_COMMUNITY_NOT_FOUND"


async def test_resolved_pairs_are_shown_where_both_names_are_visible() -> None:
    mesh = harbour()
    keys = {name: entity_key(name) for name in ("Anna Berg", "Carl Dahl", "Harbour Board", "North Quay")}

    def pair(a: str, b: str) -> ResolvedPair:
        low, high = sorted((keys[a], keys[b]))
        return ResolvedPair(low, high, "same letters", 0.9)

    mesh.artefacts["pairs"] = pack_pairs([pair("Anna Berg", "Carl Dahl"), pair("Harbour Board", "North Quay")])
    mesh.places["resolution"] = "pairs"
    request = pb.ListResolvedPairsRequest(parent=GRAPH)
    with calling("ann"):
        page = await mesh.doors().graphs.ListResolvedPairs(request, CONTEXT)
        assert page.total_count == 2
        one = pb.ListResolvedPairsRequest(parent=GRAPH, entity="Carl Dahl")
        assert (await mesh.doors().graphs.ListResolvedPairs(one, CONTEXT)).total_count <= 1
    with calling("bob", Role.VIEWER):
        page = await mesh.doors().graphs.ListResolvedPairs(request, CONTEXT)
    assert [{one.title, one.other_title} for one in page.pairs] == [{"Harbour Board", "North Quay"}]
    assert (page.pairs[0].reason, page.pairs[0].method, page.pairs[0].score) == ("same letters", "rule", 0.9)


async def test_a_knowledge_base_without_a_graph_has_nothing_to_read() -> None:
    mesh = GraphMesh(published={1}, documents={1: "open"})
    handlers = mesh.doors().graphs
    with calling("ann"):
        assert await entities(mesh) == pb.ListEntitiesResponse()
        assert await relations(mesh) == pb.ListRelationsResponse()
        page = await handlers.ListCommunities(pb.ListCommunitiesRequest(parent=GRAPH), CONTEXT)
        assert page == pb.ListCommunitiesResponse()
        pairs = await handlers.ListResolvedPairs(pb.ListResolvedPairsRequest(parent=GRAPH), CONTEXT)
        assert pairs == pb.ListResolvedPairsResponse()
        parts = [part async for part in handlers.ExportGraph(pb.ExportGraphRequest(name=GRAPH), CONTEXT)]
        assert [(part.entity_count, part.relation_count) for part in parts] == [(0, 0)]
