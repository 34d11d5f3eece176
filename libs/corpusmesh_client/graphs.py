"""Graphs of entities and relations: plan, build, describe, watch, cancel, delete, and all that is read of them."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from corpusmesh.graph.v1 import graph_service_pb2 as pb
from corpusmesh.graph.v1.graph_service_pb2_grpc import GraphServiceStub
from corpusmesh_client.calls import MAX_PAGE_SIZE, Caller, new_request_id
from corpusmesh_client.graph_inputs import GraphInputCalls
from corpusmesh_client.watching import watch_to_the_end

UNDER_WAY = frozenset({pb.Graph.STATE_BUILDING, pb.Graph.STATE_DELETING})
BY_TITLE = "-"


def graph_name(knowledge_base: str) -> str:
    """Name the graph of a knowledge base.

    Args:
        knowledge_base: `knowledgeBases/{knowledge_base}`.

    Returns:
        `knowledgeBases/*/graph`.
    """
    return f"{knowledge_base}/graph"


class GraphCalls(GraphInputCalls):
    """Calls on graphs.

    Entities are given by resource name, `knowledgeBases/*/graph/entities/*`, or as they are written.
    """

    def __init__(self, caller: Caller) -> None:
        """Create the calls.

        Args:
            caller: Makes them.
        """
        super().__init__(caller)
        self._caller = caller
        self._stub = GraphServiceStub(caller.channel)

    async def plan(self, name: str, *, full: bool = False) -> pb.PlanGraphResponse:
        """Tell what a build would cost.

        Args:
            name: `knowledgeBases/*/graph`.
            full: Whether to plan a build of the whole rather than of what has changed.

        Returns:
            The plan, and what bounds it.
        """
        return await self._caller.unary(
            self._stub.PlanGraph,
            pb.PlanGraphRequest(name=name, full=full),
            timeout_seconds=self._caller.deadlines.write_seconds,
        )

    async def build(self, name: str, *, full: bool = False, request_id: str | None = None) -> pb.BuildGraphResponse:
        """Build a graph, or bring it up to date.

        Args:
            name: `knowledgeBases/*/graph`.
            full: Whether to build the whole anew rather than what has changed.
            request_id: UUID; None to have one made.

        Returns:
            The run, and the graph.
        """
        request = pb.BuildGraphRequest(name=name, full=full, request_id=request_id or new_request_id())
        return await self._caller.unary(
            self._stub.BuildGraph, request, timeout_seconds=self._caller.deadlines.write_seconds
        )

    async def get(self, name: str) -> pb.Graph:
        """Describe a graph, as far as the caller may see it.

        Args:
            name: `knowledgeBases/*/graph`.

        Returns:
            The graph.
        """
        return await self._caller.unary(
            self._stub.GetGraph, pb.GetGraphRequest(name=name), timeout_seconds=self._caller.deadlines.read_seconds
        )

    async def cancel(self, name: str, *, request_id: str | None = None) -> pb.Graph:
        """Stop the build that is under way; the graph stays as it was published.

        Args:
            name: `knowledgeBases/*/graph`.
            request_id: UUID; None to have one made.

        Returns:
            The graph.
        """
        request = pb.CancelGraphBuildRequest(name=name, request_id=request_id or new_request_id())
        response = await self._caller.unary(
            self._stub.CancelGraphBuild, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.graph

    async def delete(self, name: str, *, request_id: str | None = None) -> str:
        """Delete a graph.

        Args:
            name: `knowledgeBases/*/graph`.
            request_id: UUID; None to have one made.

        Returns:
            The run that removes it, `knowledgeBases/*/runs/*`.
        """
        request = pb.DeleteGraphRequest(name=name, request_id=request_id or new_request_id())
        response = await self._caller.unary(
            self._stub.DeleteGraph, request, timeout_seconds=self._caller.deadlines.write_seconds
        )
        return response.run

    async def watch(
        self, name: str, *, silence_seconds: float = 30.0, give_up_after_seconds: float = 120.0
    ) -> AsyncIterator[pb.Graph]:
        """Follow the build of a graph until it has ended, over broken connections and restarts of the mesh.

        Args:
            name: `knowledgeBases/*/graph`.
            silence_seconds: Silence after which the stream is opened again.
            give_up_after_seconds: How long the mesh may fail to answer before the failure is raised.

        Yields:
            The graph at every change; the last one is not being built any more.

        Raises:
            CorpusMeshError: If the graph cannot be read, or the mesh did not answer for too long.
        """
        states = watch_to_the_end(
            f"the graph {name}",
            lambda: self._states(name),
            lambda graph: graph.state not in UNDER_WAY,
            silence_seconds=silence_seconds,
            give_up_after_seconds=give_up_after_seconds,
        )
        async for graph in states:
            yield graph

    def entities(
        self, name: str, *, query: str = "", types: Sequence[str] = (), page_size: int = MAX_PAGE_SIZE
    ) -> AsyncIterator[pb.Entity]:
        """List the entities that the caller may see, over all pages.

        Args:
            name: `knowledgeBases/*/graph`.
            query: Words of a name; "" for all, by rank.
            types: Only entities of these types; none for all.
            page_size: Entries read at once.

        Returns:
            The entities.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListEntities,
                pb.ListEntitiesRequest(parent=name, query=query, types=types, page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.entities,
        )

    async def entity(self, name: str, entity: str) -> pb.GetEntityResponse:
        """Read an entity with what documents say of it.

        Args:
            name: `knowledgeBases/*/graph`.
            entity: The entity.

        Returns:
            The entity, its documents and passages.
        """
        resource, title = _entity_of(name, entity)
        return await self._caller.unary(
            self._stub.GetEntity,
            pb.GetEntityRequest(name=resource, title=title),
            timeout_seconds=self._caller.deadlines.read_seconds,
        )

    def relations(
        self, name: str, *, entity: str = "", other_entity: str = "", page_size: int = MAX_PAGE_SIZE
    ) -> AsyncIterator[pb.Relation]:
        """List the relations that the caller may see, over all pages, the strongest first.

        Args:
            name: `knowledgeBases/*/graph`.
            entity: Only those of this entity; "" for all.
            other_entity: Only that with this one; "" for all.
            page_size: Entries read at once.

        Returns:
            The relations.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListRelations,
                pb.ListRelationsRequest(
                    parent=name, entity=entity, other_entity=other_entity, page_size=page_size, page_token=token
                ),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.relations,
        )

    async def relation(self, name: str) -> pb.GetRelationResponse:
        """Read a relation with its passages.

        Args:
            name: `knowledgeBases/*/graph/relations/*`.

        Returns:
            The relation and its passages.
        """
        return await self._caller.unary(
            self._stub.GetRelation,
            pb.GetRelationRequest(name=name),
            timeout_seconds=self._caller.deadlines.read_seconds,
        )

    async def neighbourhood(
        self, name: str, entity: str, *, hops: int = 1, max_entities: int = 0, max_relations: int = 0
    ) -> pb.GetNeighbourhoodResponse:
        """Read what is around an entity.

        Args:
            name: `knowledgeBases/*/graph`.
            entity: The entity.
            hops: How many relations away, at most 4.
            max_entities: Most entities; 0 for the default.
            max_relations: Most relations; 0 for the default.

        Returns:
            Entities and the relations among them.
        """
        resource, title = _entity_of(name, entity)
        request = pb.GetNeighbourhoodRequest(
            name=resource, title=title, hops=hops, max_entities=max_entities, max_relations=max_relations
        )
        return await self._caller.unary(
            self._stub.GetNeighbourhood, request, timeout_seconds=self._caller.deadlines.read_seconds
        )

    def export(self, name: str, *, without_descriptions: bool = False) -> AsyncIterator[pb.ExportGraphResponse]:
        """Export a graph: entities, then relations.

        Args:
            name: `knowledgeBases/*/graph`.
            without_descriptions: Whether to leave descriptions out.

        Returns:
            Parts; the first says how much there is.
        """
        return self._caller.stream(
            self._stub.ExportGraph,
            pb.ExportGraphRequest(name=name, without_descriptions=without_descriptions),
            timeout_seconds=self._caller.deadlines.watch_seconds,
        )

    def communities(
        self, name: str, *, level: int | None = None, page_size: int = MAX_PAGE_SIZE
    ) -> AsyncIterator[pb.Community]:
        """List the communities whose report the caller may see, over all pages.

        Args:
            name: `knowledgeBases/*/graph`.
            level: Only those of this level, 0 for the coarsest; None for all.
            page_size: Entries read at once.

        Returns:
            The communities.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListCommunities,
                pb.ListCommunitiesRequest(parent=name, level=level, page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.communities,
        )

    async def community(self, name: str) -> pb.GetCommunityResponse:
        """Read a community with its report.

        Args:
            name: `knowledgeBases/*/graph/communities/*`.

        Returns:
            The community, its entities and passages.
        """
        return await self._caller.unary(
            self._stub.GetCommunity,
            pb.GetCommunityRequest(name=name),
            timeout_seconds=self._caller.deadlines.read_seconds,
        )

    def resolved_pairs(
        self, name: str, *, entity: str = "", page_size: int = MAX_PAGE_SIZE
    ) -> AsyncIterator[pb.ResolvedPair]:
        """List names that were held to be one entity, over all pages.

        Args:
            name: `knowledgeBases/*/graph`.
            entity: Only those of this entity; "" for all.
            page_size: Entries read at once.

        Returns:
            The pairs with their reasons.
        """
        return self._caller.pages(
            lambda token: self._caller.unary(
                self._stub.ListResolvedPairs,
                pb.ListResolvedPairsRequest(parent=name, entity=entity, page_size=page_size, page_token=token),
                timeout_seconds=self._caller.deadlines.read_seconds,
            ),
            lambda page: page.pairs,
        )

    async def _states(self, name: str) -> AsyncGenerator[pb.Graph, None]:
        stream = self._caller.stream(
            self._stub.WatchGraph,
            pb.WatchGraphRequest(name=name),
            timeout_seconds=self._caller.deadlines.watch_seconds,
        )
        async with aclosing(stream):
            async for response in stream:
                yield response.graph


def _entity_of(graph: str, entity: str) -> tuple[str, str]:
    return (entity, "") if entity.startswith(f"{graph}/entities/") else (f"{graph}/entities/{BY_TITLE}", entity)
