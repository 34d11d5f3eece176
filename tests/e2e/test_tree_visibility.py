"""Whatever of a tree anybody is shown, the rule of visibility allows: random access, asked through every door."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from google.protobuf.message import Message
from pyroaring import BitMap

from corpusmesh.ingest.v1 import document_service_pb2 as document_pb
from corpusmesh.ingest.v1 import knowledge_base_service_pb2 as knowledge_base_pb
from corpusmesh.retrieve.v1 import retrieval_service_pb2 as retrieval_pb
from corpusmesh.type.v1 import policy_pb2
from corpusmesh_client import CorpusMeshClient
from corpusmesh_client.knowledge_base_settings import settings_from_plain
from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.records import RULE_BY_KIND, Record, RecordKind
from corpusmesh_core.trees.values import CHILDREN
from corpusmesh_core.visibility import Visibility, is_visible
from tests.support.mesh import MeshHarness, TestTenant, ingest_texts
from tests.support.tree_library import SUBJECTS, build, handbook, records_of

GROUPS: Mapping[str, tuple[str, ...]] = {"ann": ("blue",), "bob": ("red",), "cas": ("blue", "red"), "dee": ()}
MODES = ("MODE_COLLAPSED", "MODE_TRAVERSAL", "MODE_HIERARCHICAL")
QUESTION = "Which committee decides the costs and deadlines for the whole company?"
KINDS = (RecordKind.CHUNK, RecordKind.TREE_NODE)
UNIVERSE = 1_000_000
NODE_COUNT_OF_DOORS = 4
WORDS = SUBJECTS[5:14]
OWN_LINES = re.compile(r"\\s*(?:query_terms|query|standalone_query|retrieval|name|run|snapshots?):")
"""Lines of an answer that hold what the caller has said, or names."""


@dataclass
class Library:
    """Two knowledge bases over the same documents, and what is known of them without asking the mesh.

    Attributes:
        mesh: The mesh.
        tenant: The tenant.
        owner: Sees everything.
        callers: Everybody else.
        bases: One tree of all documents, and a tree of each.
        access: Who may read a document, by its name without ending; None for everybody.
    """

    mesh: MeshHarness
    tenant: TestTenant
    owner: CorpusMeshClient
    callers: Mapping[str, CorpusMeshClient]
    bases: Sequence[str]
    access: dict[str, document_pb.DocumentAccess | None]

    async def documents(self, base: str) -> dict[str, document_pb.Document]:
        return {item.display_name.removesuffix(".md"): item async for item in self.owner.documents.list(base)}

    async def restrict(self, word: str, access: document_pb.DocumentAccess) -> None:
        self.access[word] = access
        for base in self.bases:
            name = (await self.documents(base))[word].name
            await self.owner.documents.update(document_pb.Document(name=name, access=access), paths=("access",))

    def may_read(self, caller: str, word: str) -> bool:
        access = self.access[word]
        if access is None:
            return True
        user, groups = f"users/{caller}", set(GROUPS[caller])
        if user in access.denied_users or groups & set(access.denied_groups):
            return False
        is_open = not access.allowed_users and not access.allowed_groups
        return is_open or user in access.allowed_users or bool(groups & set(access.allowed_groups))

    async def expected(self, base: str) -> dict[str, dict[str, Record]]:
        """What each caller may see by the rule itself, of what is really in the index: records by id."""
        space = (await self.owner.knowledge_bases.get(base)).space
        records: list[Record] = []
        for kind in KINDS:
            records += await records_of(self.mesh, self.tenant.tenant_id, base, space, kind)
        documents = await self.documents(base)
        words = {item.name.rpartition("/")[2]: word for word, item in documents.items()}
        versions = {record.publisher: words[record.document_id] for record in records if record.document_id in words}
        # Nobody restricts the owner, who sees whatever is published; no document here has a second version.
        nodes = {int(name.partition("-")[0]) for name in await visible_ids(self.owner, base)}
        found: dict[str, dict[str, Record]] = {}
        for caller in self.callers:
            readable = {ordinal for ordinal, word in versions.items() if self.may_read(caller, word)}
            visibility = Visibility.of(caller, BitMap(readable | (nodes - versions.keys())), UNIVERSE)
            found[caller] = {
                record.record_id: record
                for record in records
                if is_visible(record.publisher, record.sources, RULE_BY_KIND[record.kind], visibility)
            }
        return found

    async def hidden_words(self, caller: str) -> re.Pattern[str]:
        """What stands in documents that a caller may not read, and in no other."""
        hidden = [word for word in self.access if not self.may_read(caller, word)]
        return re.compile("|".join(hidden) or r"\Znothing", re.IGNORECASE)


async def library(mesh: MeshHarness, seed: int) -> Library:
    tenant = await mesh.tenant()
    rng = random.Random(seed)
    owner = mesh.client(tenant.owner_key)
    callers = {
        name: mesh.client(await mesh.member(tenant, name, policy_pb2.ROLE_VIEWER, groups=groups))
        for name, groups in GROUPS.items()
    }
    bases = []
    for scope in ("dataset", "file"):
        wanted = settings_from_plain(
            {
                "chunking": {"settings": {"max_tokens": 80, "heading_break_tokens": 8}},
                "tree": {"scope": scope, "auto_update": False, "small_layer_size": 2},
            }
        )
        wanted.display_name = f"{scope} {seed}"
        wanted.permission = knowledge_base_pb.PERMISSION_TEAM
        bases.append((await owner.knowledge_bases.create(wanted)).name)
        await ingest_texts(owner, bases[-1], {f"{word}.md": handbook(word) for word in WORDS})
    shelf = Library(mesh, tenant, owner, callers, bases, dict.fromkeys(WORDS))
    for word in rng.sample(WORDS, 6):
        await shelf.restrict(word, random_access(rng))
    await build(owner, bases[0])
    return shelf


def random_access(rng: random.Random) -> document_pb.DocumentAccess:
    def some(names: Sequence[str]) -> list[str]:
        return rng.sample(names, rng.choice((0, 0, 1, 2)))

    users = [f"users/{name}" for name in GROUPS]
    access = document_pb.DocumentAccess(
        allowed_users=some(users), allowed_groups=some(("blue", "red")), denied_users=some(users)
    )
    if not access.ListFields():
        access.denied_groups.append(rng.choice(("blue", "red")))
    return access


async def names_of_trees(shelf: Library, base: str) -> list[tuple[str, str]]:
    """Trees of a knowledge base, each with the document that it is of; "" for the tree of all."""
    if base == shelf.bases[0]:
        return [(f"{base}/trees/dataset", "")]
    return [(f"{item.name}/tree", word) for word, item in (await shelf.documents(base)).items()]


def record_ids(message: Message) -> set[str]:
    """Every id of a record that is named anywhere in an answer, in a place or within a text."""
    return set(re.findall(r"\b\d{1,10}-(?:tree_node-[0-9a-f]+|\d{1,9})\b", str(message)))


async def check(shelf: Library) -> int:
    """Ask through every door as every caller; the number of nodes that somebody was rightly not shown."""
    hidden_count = 0
    for base in shelf.bases:
        expected = await shelf.expected(base)
        every = set(await visible_nodes(shelf, shelf.owner, base))
        for caller, client in shelf.callers.items():
            allowed = expected[caller]
            secret = await shelf.hidden_words(caller)
            nodes = {key for key, record in allowed.items() if record.kind is RecordKind.TREE_NODE}
            assert set(await visible_nodes(shelf, client, base)) == nodes, (caller, base)
            hidden_count += len(every - nodes)
            answers: list[Message] = []
            for tree, word in await names_of_trees(shelf, base):
                if word and not shelf.may_read(caller, word):
                    for refused in (client.trees.get(tree), client.trees.node(f"{tree}/nodes/{min(every)}")):
                        with pytest.raises(NotFoundError):
                            await refused
                    continue
                described = await client.trees.get(tree)
                own = [allowed[key] for key in nodes if not word or allowed[key].document_id in tree]
                layers = max((record.layer for record in own), default=0)
                counts = [sum(record.layer == layer for record in own) for layer in range(1, layers + 1)]
                assert list(described.layer_node_counts) == counts, (caller, tree)
                answers.append(described)
                for record in sorted(own, key=lambda record: -record.layer)[:NODE_COUNT_OF_DOORS]:
                    read = await client.trees.node(f"{tree}/nodes/{record.record_id}")
                    assert {leaf.record_id for leaf in read.leaves} == set(record.links)
                    if record.layer > 1:
                        children = [child.name.rpartition("/")[2] for child in read.children]
                        assert children == record.attributes[CHILDREN].split()
                    answers.append(read)
                for name in sorted(every - nodes)[:NODE_COUNT_OF_DOORS]:
                    with pytest.raises(NotFoundError):
                        await client.trees.node(f"{tree}/nodes/{name}")
            answers += [
                await client.search([base], QUESTION, plan=plan, page_size=50, explain=True) for plan in plans()
            ]
            answers += [event async for event in client.answer([base], QUESTION)]
            for answer in answers:
                assert record_ids(answer) <= allowed.keys(), (caller, type(answer).__name__)
                said = "\n".join(line for line in str(answer).splitlines() if not OWN_LINES.match(line))
                assert not secret.search(said), (caller, secret.search(said))
    return hidden_count


def plans() -> list[retrieval_pb.RetrievalPlan]:
    tree = retrieval_pb.TreePlan
    found = [retrieval_pb.RetrievalPlan(tree=tree(mode=tree.Mode.Value(mode))) for mode in MODES]
    return [*found, retrieval_pb.RetrievalPlan(kinds=["tree_node"])]


async def visible_nodes(shelf: Library, client: CorpusMeshClient, base: str) -> list[str]:
    found: list[str] = []
    for tree, _ in await names_of_trees(shelf, base):
        try:
            found += [node.name.rpartition("/")[2] async for node in client.trees.nodes(tree, page_size=7)]
        except NotFoundError:
            continue
    return found


async def visible_ids(client: CorpusMeshClient, base: str) -> set[str]:
    if not base:
        return set()
    try:
        return {node.name.rpartition("/")[2] async for node in client.trees.nodes(f"{base}/trees/dataset")}
    except NotFoundError:
        return set()


@pytest.mark.parametrize("seed", [1])
async def test_nobody_is_shown_anything_of_a_tree_that_they_may_not_see(mesh: MeshHarness, seed: int) -> None:
    shelf = await library(mesh, seed)
    assert await check(shelf)
    first = {caller: await hits(client, shelf.bases[0]) for caller, client in shelf.callers.items()}
    snapshots = [item.name async for item in shelf.owner.knowledge_bases.list_snapshots(shelf.bases[0])]

    # A right that is taken away, and a document that is deleted, count at once: nothing is built in between.
    await shelf.restrict(WORDS[0], document_pb.DocumentAccess(allowed_users=["users/nobody"]))
    await check(shelf)
    runs = [await shelf.owner.documents.delete((await shelf.documents(base))[WORDS[1]].name) for base in shelf.bases]
    await check(shelf)
    for run in runs:
        await shelf.owner.runs.wait(run)
    await build(shelf.owner, shelf.bases[0])
    await check(shelf)

    # As it was then, but for what has been deleted or taken away since: before, and published again.
    expected = await shelf.expected(shelf.bases[0])
    for caller, client in shelf.callers.items():
        then = await hits(client, shelf.bases[0], as_of=snapshots[0])
        assert then <= first[caller]
        assert not any(re.search(WORDS[1], text, re.IGNORECASE) for _, text in then)
        assert {key for key, _ in then} & expected[caller].keys() or not then
    await shelf.owner.knowledge_bases.rollback(shelf.bases[0], snapshots[0])
    await check(shelf)


async def hits(client: CorpusMeshClient, base: str, *, as_of: str = "") -> set[tuple[str, str]]:
    plan = retrieval_pb.RetrievalPlan(kinds=["tree_node"])
    snapshots = [as_of] if as_of else []
    found = await client.search([base], QUESTION, plan=plan, page_size=100, as_of_snapshots=snapshots)
    return {(hit.record_id, hit.text) for hit in found.hits}
