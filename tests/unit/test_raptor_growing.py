"""Trees grow layer by layer, and take over what a tree before has made."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from corpusmesh_core.errors import DeadlineExceededError, FailedPreconditionError, UnavailableError
from corpusmesh_core.ports.embedding import EmbedResult
from corpusmesh_core.trees.settings import SummaryMethod, TreeMethod, TreeSettings
from corpusmesh_core.trees.values import GrownTree, Leaf, TreeNode, Vectors
from corpusmesh_raptor.grouping import Grouper, cluster_softly
from corpusmesh_raptor.growing import GrowingTools, KnownNode, grow
from corpusmesh_runtime.text_vectors import TextVectors
from tests.support.ingest_stages import DIMENSION, CountingEmbedder, unit_vector
from tests.support.tree_growing import CountingSession, OverlappingClusterer, grown_with, make_leaves, walk

SETTINGS = TreeSettings()


async def grown(
    leaves: Sequence[Leaf],
    vectors: Vectors,
    tools: GrowingTools,
    reuse: Mapping[bytes, KnownNode] | None = None,
    settings: TreeSettings = SETTINGS,
    **grouping: Any,
) -> GrownTree:
    return await grow(leaves, vectors, Grouper(settings, **grouping), tools, reuse)


def words(count: int) -> list[str]:
    return [f"word{place} and more" for place in range(count)]


def known_in(tree: GrownTree) -> dict[bytes, KnownNode]:
    return {
        node.key: KnownNode(node.summary, vector)
        for nodes, vectors in zip(tree.layers, tree.vectors, strict=True)
        for node, vector in zip(nodes, vectors, strict=True)
    }


def nodes_of(tree: GrownTree) -> list[TreeNode]:
    return [node for layer in tree.layers for node in layer]


async def test_every_leaf_is_beneath_the_one_root_and_layers_shrink() -> None:
    session = CountingSession()
    tree = await grown(make_leaves(words(100)), walk(100), grown_with(session))
    sizes = [100, *map(len, tree.layers)]
    assert sizes[-1] == 1
    assert all(above < beneath for beneath, above in pairwise(sizes))
    for depth, nodes in enumerate(tree.layers):
        assert [place for node in nodes for place in node.children] == list(range(sizes[depth]))
        assert [place for node in nodes for place in node.leaf_places] == list(range(100))
        assert {node.layer for node in nodes} == {depth + 1}
        assert len(tree.vectors[depth]) == len(nodes)
    assert len(session.asked) == len(nodes_of(tree)) == sum(tree.cost.layer_node_counts)
    assert (tree.cost.leaf_count, tree.cost.reused_node_count, tree.cost.embedded_text_count) == (100, 0, 0)


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 0), (2, 1), (8, 1)])
async def test_a_small_document_has_one_node_and_one_chunk_has_none(count: int, expected: int) -> None:
    tree = await grown(make_leaves(words(count)), walk(count), grown_with(CountingSession()))
    assert [len(nodes) for nodes in tree.layers] == [1] * expected


async def test_growing_again_over_the_same_leaves_asks_for_nothing_and_gives_the_same() -> None:
    leaves, vectors = make_leaves(words(60)), walk(60, DIMENSION)
    first = await grown(leaves, vectors, grown_with(CountingSession(method=SummaryMethod.LLM)))
    session, embedder = CountingSession(method=SummaryMethod.LLM), CountingEmbedder()
    again = await grown(leaves, vectors, grown_with(session, embedder), known_in(first))
    assert (session.asked, embedder.texts) == ([], [])
    assert nodes_of(again) == nodes_of(first)
    assert all(np.array_equal(one, two) for one, two in zip(again.vectors, first.vectors, strict=True))
    assert again.cost.reused_node_count == len(nodes_of(first))


async def test_one_changed_leaf_makes_only_what_is_above_it_anew() -> None:
    texts, vectors = words(200), walk(200)
    before = await grown(make_leaves(texts), vectors, grown_with(CountingSession()))
    texts[77] = "edited and more"
    session = CountingSession()
    after = await grown(make_leaves(texts), vectors, grown_with(session), known_in(before))
    # The vectors are the same, so every boundary is: one node a layer.
    assert len(session.asked) == len(after.layers)
    kept = {node.key: node for node in nodes_of(before)}
    made = [node for node in nodes_of(after) if node.key not in kept]
    assert [node.layer for node in made] == list(range(1, len(after.layers) + 1))
    assert all(77 in node.leaf_places for node in made)
    assert all(node.summary == kept[node.key].summary for node in nodes_of(after) if node.key in kept)


async def test_what_a_model_writes_is_embedded_in_the_knowledge_bases_space() -> None:
    embedder = CountingEmbedder()
    session = CountingSession(method=SummaryMethod.LLM)
    tools = grown_with(session, embedder, title="Rivers")
    tree = await grown(make_leaves(words(30)), walk(30, DIMENSION), tools)
    assert sorted(embedder.texts) == sorted(f"Rivers\n{node.summary.text}" for node in nodes_of(tree))
    assert tree.cost.embedded_text_count == len(nodes_of(tree))
    root = nodes_of(tree)[-1]
    by_children = tree.vectors[-2].mean(axis=0)
    assert float(tree.vectors[-1][0] @ unit_vector(f"Rivers\n{root.summary.text}")) > float(
        by_children @ unit_vector(f"Rivers\n{root.summary.text}")
    )


async def test_another_model_than_the_knowledge_bases_is_refused_before_anything_is_embedded() -> None:
    embedder = CountingEmbedder()
    stranger: Any = TextVectors(embedder, "another-space")  # type: ignore[arg-type]
    tools = grown_with(CountingSession())
    with pytest.raises(FailedPreconditionError) as told:
        await stranger.embed(["text"], tools.cost, timeout_seconds=1.0)
    assert (told.value.reason, embedder.texts) == ("SPACE_WITHOUT_MODEL", [])


async def test_an_embed_service_that_is_away_stops_the_growth() -> None:
    class Away(CountingEmbedder):
        async def embed(self, texts: Any, **_: object) -> Any:
            raise UnavailableError("EMBED_AWAY", "away")

    tools = grown_with(CountingSession(method=SummaryMethod.LLM), Away())
    with pytest.raises(ExceptionGroup) as told:
        await grown(make_leaves(words(9)), walk(9, DIMENSION), tools)
    assert told.group_contains(UnavailableError)


async def test_equal_passages_make_nodes_of_their_own_and_are_summarized_once() -> None:
    # Four times the same ten texts far from each other: equal children, equal keys.
    texts = words(10) * 4
    block = walk(10)
    vectors = np.concatenate([block] * 4)
    session = CountingSession()
    tree = await grown(make_leaves(texts), vectors, grown_with(session))
    keys = [node.key for node in nodes_of(tree)]
    assert len(set(keys)) == len(keys)
    assert len({cluster.key for cluster in session.asked}) == len(session.asked) < len(keys)


class Mute(CountingEmbedder):
    """Leaves nodes where their children are."""

    async def embed(self, texts: Any, **_: object) -> EmbedResult:
        return EmbedResult(np.zeros((len(texts), DIMENSION), dtype=np.float32), 0)


@pytest.mark.parametrize(
    ("fallback", "is_retried"),
    [
        ("unreachable", True),
        ("misconfigured", True),
        ("errors_spent", True),
        ("budget_spent", True),
        ("unfaithful", False),
        ("unusable", False),
    ],
)
async def test_what_a_model_could_not_write_before_is_tried_again_where_it_may_now(
    fallback: str, is_retried: bool
) -> None:
    leaves, vectors = make_leaves(words(60)), walk(60, DIMENSION)
    failing = CountingSession(method=SummaryMethod.LLM, fallbacks={"word20": fallback})
    before = await grown(leaves, vectors, grown_with(failing, Mute()))
    session = CountingSession(method=SummaryMethod.LLM)
    after = await grown(leaves, vectors, grown_with(session, Mute()), known_in(before))
    # With a node all that is above it is made again: it tells what that node told.
    above = [node for node in nodes_of(after) if 20 in node.leaf_places]
    assert len(session.asked) == (len(above) if is_retried else 0)
    assert any(node.summary.fallback for node in nodes_of(after)) is not is_retried


async def test_pages_and_sections_are_the_first_layer_and_name_their_nodes() -> None:
    headings = [f"Part {place // 5}" for place in range(25)]
    texts = [f"word{place} " + "more " * 60 for place in range(25)]
    leaves = make_leaves(texts, headings=headings)
    session = CountingSession()
    tree = await grown(leaves, walk(25), grown_with(session), settings=TreeSettings(method=TreeMethod.SECTION))
    assert [(node.title, node.children) for node in tree.layers[0]] == [
        (f"Part {part}", tuple(range(5 * part, 5 * part + 5))) for part in range(5)
    ]
    assert [cluster.title for cluster in session.calls[0]] == [f"Part {part}" for part in range(5)]
    assert [node.title for node in tree.layers[1]] == [""]


async def test_a_mixture_shares_leaves_and_its_absence_leaves_the_watershed() -> None:
    leaves, vectors = make_leaves(words(40)), walk(40)
    mixture = TreeSettings(method=TreeMethod.MIXTURE, random_seed=7)
    clusterer = OverlappingClusterer()
    soft = await grown(leaves, vectors, grown_with(CountingSession()), settings=mixture, clusterer=clusterer)
    assert set(clusterer.seeds) == {7}
    places = [place for node in soft.layers[0] for place in node.children]
    assert set(places) == set(range(40))
    assert len(places) > 40
    assert soft.layers[-1][0].leaf_places == tuple(range(40))
    hard = await grown(leaves, vectors, grown_with(CountingSession()))
    absent: list[dict[str, Any]] = [
        {},
        {"clusterer": OverlappingClusterer(FailedPreconditionError("TREE_METHOD_UNAVAILABLE", "no"))},
        {"clusterer": OverlappingClusterer(), "max_mixture_nodes": 39},
    ]
    for fields in absent:
        stood_in = await grown(leaves, vectors, grown_with(CountingSession()), settings=mixture, **fields)
        assert [node.children for node in stood_in.layers[0]] == [node.children for node in hard.layers[0]]


async def test_a_mixture_that_does_not_end_leaves_time_for_the_watershed() -> None:
    allowed: list[float] = []

    class Waiting(OverlappingClusterer):
        async def cluster(self, vectors: Any, *, seed: int, timeout_seconds: float) -> tuple[NDArray[np.int32], ...]:
            allowed.append(timeout_seconds)
            raise DeadlineExceededError("TREE_CLUSTERING_TIMEOUT", "it took longer")

    soft = TreeSettings(method=TreeMethod.MIXTURE)
    assert await cluster_softly(Waiting(), walk(40), soft, max_node_count=99, timeout_seconds=100.0) is None
    assert allowed == [50.0]


async def test_progress_is_told_from_none_to_all_of_each_layer() -> None:
    told: list[tuple[int, int, int]] = []

    async def tell(layer: int, count: int, made: int) -> None:
        told.append((layer, count, made))

    tree = await grown(make_leaves(words(600)), walk(600), grown_with(CountingSession(), told=tell))
    for layer, nodes in enumerate(tree.layers, start=1):
        made = [made for at, count, made in told if at == layer and count == len(nodes)]
        assert (made[0], made[-1]) == (0, len(nodes))
        assert made == sorted(made)


async def test_a_cancelled_growth_asks_for_nothing_more() -> None:
    session = CountingSession()
    going = asyncio.Event()

    async def wait() -> None:
        going.set()
        await asyncio.Event().wait()

    session.hook = wait
    task = asyncio.create_task(grown(make_leaves(words(600)), walk(600), grown_with(session)))
    await going.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(session.calls) == 1


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 60),
    st.integers(0, 2**16),
    st.sampled_from([*TreeMethod]),
    st.sampled_from(["walk", "zeros", "equal", "nan"]),
)
def test_any_leaves_give_a_tree_that_ends_the_same_way_twice(
    count: int, seed: int, method: TreeMethod, shape: str
) -> None:
    vectors = walk(count, 4, seed=seed)
    if shape == "zeros":
        vectors = np.zeros_like(vectors)
    elif shape == "equal":
        vectors = np.repeat(vectors[:1], count, axis=0)
    elif shape == "nan":
        vectors[seed % count] = np.nan
    leaves = make_leaves([f"w{place % (1 + seed % 7)} x" for place in range(count)])
    trees = [
        asyncio.run(grown(leaves, vectors, grown_with(CountingSession()), settings=TreeSettings(method=method)))
        for _attempt in range(2)
    ]
    assert nodes_of(trees[0]) == nodes_of(trees[1])
    assert len(trees[0].layers[-1]) == 1
    assert trees[0].layers[-1][0].leaf_places == tuple(range(count))
    keys = [node.key for node in nodes_of(trees[0])]
    assert len(set(keys)) == len(keys)
