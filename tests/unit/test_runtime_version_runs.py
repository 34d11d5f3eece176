"""Runs that remake documents, and what makes a version one of another configuration."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from corpusmesh_core.errors import NotFoundError
from corpusmesh_core.ports.runs import Derivation, IngestOptions, IngestResult
from corpusmesh_core.tenancy import Identity, Role, Scope, document_not_found
from corpusmesh_core.trees.settings import TREE
from corpusmesh_runtime.config_hash import config_hash
from corpusmesh_runtime.context import CallContext, current_call
from corpusmesh_runtime.version_runs import GROUP_DOCUMENTS, VersionRuns
from tests.support.ingest_stages import MemoryMetadata


class Stores:
    """Runs and documents of one knowledge base, of which some go while a run is begun."""

    def __init__(self, document_ids: Sequence[str], going: Sequence[str] = ()) -> None:
        self.living = set(document_ids)
        self.going = list(going)
        self.calls: list[tuple[list[str], IngestOptions]] = []

    async def get(self, identity: Identity, knowledge_base_id: str, document_id: str) -> None:
        if document_id not in self.living:
            raise document_not_found(document_id)

    async def derive(
        self, identity: Identity, knowledge_base_id: str, derivations: Sequence[Derivation], options: IngestOptions
    ) -> IngestResult:
        if self.going:
            self.living.discard(self.going.pop(0))
        for derivation in derivations:
            await self.get(identity, knowledge_base_id, derivation.document_id)
        assert all(derivation == Derivation(derivation.document_id) for derivation in derivations)
        self.calls.append(([derivation.document_id for derivation in derivations], options))
        return IngestResult("run", (), ())


@pytest.fixture(autouse=True)
def call() -> Iterator[None]:
    token = current_call.set(
        CallContext(Identity("acme", "ann", Role.EDITOR, Scope.WRITE), "request-1", time.monotonic() + 60)
    )
    yield
    current_call.reset(token)


def runs_of(stores: Stores) -> VersionRuns:
    fake = cast(Any, stores)
    return VersionRuns(fake, fake)


IDS = [f"d{place:03}" for place in range(2 * GROUP_DOCUMENTS + 1)]


async def test_documents_are_remade_in_groups_of_one_run_that_ends_with_the_last() -> None:
    stores = Stores(IDS)
    knowledge_base = await MemoryMetadata({TREE: {"scope": "file"}}).get(cast(Any, None), "kb")
    started = await runs_of(stores).remake(knowledge_base, IDS, request_id="r")
    assert (started.run_id, list(started.document_ids)) == ("run", IDS)
    assert [len(ids) for ids, _ in stores.calls] == [GROUP_DOCUMENTS, GROUP_DOCUMENTS, 1]
    assert [(options.run_id, options.is_last) for _, options in stores.calls] == [
        ("", False),
        ("run", False),
        ("run", True),
    ]
    assert {options.config_hash for _, options in stores.calls} == {config_hash(knowledge_base.config)}
    assert not any(options.is_interactive for _, options in stores.calls)


async def test_what_is_deleted_meanwhile_is_left_out_and_the_run_ends_all_the_same() -> None:
    stores = Stores(IDS, going=[IDS[3], "", "", IDS[-1]])
    knowledge_base = await MemoryMetadata().get(cast(Any, None), "kb")
    started = await runs_of(stores).remake(knowledge_base, IDS, request_id="")
    assert list(started.document_ids) == [name for name in IDS if name not in (IDS[3], IDS[-1])]
    assert stores.calls[-1][0] == []
    assert stores.calls[-1][1].is_last


async def test_nothing_left_to_remake_begins_no_run() -> None:
    stores = Stores(["a"], going=["a"])
    knowledge_base = await MemoryMetadata().get(cast(Any, None), "kb")
    started = await runs_of(stores).remake(knowledge_base, ["a"], request_id="")
    assert (started.run_id, started.document_ids, stores.calls) == ("", (), [])


async def test_documents_that_go_on_being_deleted_are_told() -> None:
    stores = Stores(IDS, going=IDS[:3])
    knowledge_base = await MemoryMetadata().get(cast(Any, None), "kb")
    with pytest.raises(NotFoundError):
        await runs_of(stores).remake(knowledge_base, IDS[:4], request_id="")


FILE: dict[str, object] = {"scope": "file"}


@pytest.mark.parametrize(
    "section",
    [
        FILE | {"method": "section"},
        FILE | {"clustering_threshold": 0.4},
        FILE | {"max_cluster_size": 32},
        FILE | {"summaries": "llm"},
        FILE | {"summary_tokens": 64},
        {},
    ],
)
def test_how_trees_of_documents_are_made_decides_what_a_version_is(section: dict[str, object]) -> None:
    assert config_hash({TREE: section}) != config_hash({TREE: FILE})


@pytest.mark.parametrize(
    "section",
    [
        FILE | {"auto_update": False},
        FILE | {"max_model_calls": 7, "max_model_tokens": 9, "max_errors": 1},
        FILE | {"clustering_threshold": 0.3, "summary_tokens": 0},
        FILE | {"random_seed": 3},
        FILE | {"prompt": "for a language model that is not asked"},
    ],
)
def test_what_a_tree_may_cost_and_what_is_the_default_does_not(section: dict[str, object]) -> None:
    assert config_hash({TREE: section}) == config_hash({TREE: FILE})


def test_the_tree_of_a_knowledge_base_is_no_part_of_a_version() -> None:
    assert config_hash({TREE: {"scope": "dataset", "clustering_threshold": 0.4}}) == config_hash({})
    assert config_hash({TREE: {"scope": "off"}}) == config_hash({TREE: {}}) == config_hash({})
