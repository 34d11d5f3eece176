"""A tenant's own words change what a question is turned into (FR-A13)."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from corpusmesh_core.errors import InvalidArgumentError, UnavailableError
from corpusmesh_core.ports.vocabulary import VocabularyRow
from corpusmesh_core.tenancy import Identity, Role, Scope
from corpusmesh_core.text import analyze, analyze_query
from corpusmesh_core.text.vocabulary import Vocabulary, VocabularyIndex
from corpusmesh_retrieve.vocabulary.reading import VocabularyReader
from corpusmesh_runtime.context import CallContext


def index(terms: Sequence[str] = (), *groups: Sequence[str]) -> VocabularyIndex:
    return VocabularyIndex(Vocabulary.checked(terms, groups))


@pytest.mark.parametrize("question", ["氪金", "什么是氪金？", "怎么看待氪金的玩家", "游戏里氪金要注意什么"])
def test_an_own_term_is_a_phrase_wherever_a_question_holds_it(question: str) -> None:
    own = index(["氪金", "clustered index"])
    assert own.phrases_in(question) == analyze_query(question, own_terms=["氪金"]).phrases == (("氪金",),)
    assert own.phrases_in("What is a Clustered  INDEXES?") == (analyze("clustered index").fine,)
    assert own.phrases_in("an index that is clustered") == ()


def test_full_width_and_traditional_forms_are_the_same_term() -> None:
    own = index(["数据库abc"])
    assert own.phrases_in("數據庫ＡＢＣ是什么") == own.phrases_in("数据库abc")
    assert own.phrases_in("数据库abc")


def test_the_longest_term_counts_at_each_place() -> None:
    own = index(["index", "clustered index", "clustered index scan"])
    found = own.phrases_in("clustered index scan and index")
    assert found == (analyze("clustered index scan").fine, ("index",))


def test_synonyms_stand_for_the_words_that_the_question_holds() -> None:
    own = index([], ["laptop", "notebook computer", "笔记本电脑"], ["leave", "vacation"])
    question = "Which laptops need vacation approval?"
    found = {
        alternative.phrase: alternative.replaced
        for alternative in own.alternatives_in(question, analyze_query(question).fine)
    }
    assert found == {
        analyze("notebook computer").fine: ("laptop",),
        analyze("笔记本电脑").fine: ("laptop",),
        ("leav",): ("vacat",),
    }
    assert own.alternatives_in("something else", ("someth", "els")) == ()


def test_what_the_question_says_itself_is_not_searched_twice() -> None:
    own = index([], ["laptop", "notebook"])
    question = "laptop or notebook"
    assert own.alternatives_in(question, analyze_query(question).fine) == ()


def test_alternatives_are_bounded() -> None:
    own = index([], *([f"word{number}", *(f"other{number}x{place}" for place in range(15))] for number in range(100)))
    question = " ".join(f"word{number}" for number in range(100))
    assert len(own.alternatives_in(question, analyze_query(question).fine)) == 16


@pytest.mark.parametrize(
    ("terms", "groups"),
    [
        ([""], []),
        (["  "], []),
        (["?!"], []),
        (["a" * 101], []),
        (["a\x00b"], []),
        (["a\u202eb"], []),
        ([f"t{number}" for number in range(10_001)], []),
        ([], [["alone"]]),
        ([], [["same", "same "]]),
        ([], [[f"w{number}" for number in range(17)]]),
        ([], [[f"a{number}", f"b{number}"] for number in range(2_001)]),
        ([f"{number:05}" + "x" * 90 for number in range(6_000)], []),
    ],
)
def test_words_beyond_the_bounds_are_refused_with_their_field(terms: list[str], groups: list[list[str]]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Vocabulary.checked(terms, groups)
    assert caught.value.reason == "VOCABULARY_INVALID"
    assert (caught.value.field or "").startswith("vocabulary")


def test_finding_words_takes_no_longer_with_a_large_vocabulary() -> None:
    large = index([f"term{number} of mine" for number in range(10_000)])
    assert large.phrases_in("what is term77 of mine") == (analyze("term77 of mine").fine,)


class Store:
    """Has one vocabulary, counts reads, and fails where it is told to."""

    def __init__(self) -> None:
        self.row = VocabularyRow(Vocabulary(), 0)
        self.read_count = 0
        self.fails = False

    async def read(self, identity: Identity, *, newer_than: int = -1) -> VocabularyRow | None:
        self.read_count += 1
        await asyncio.sleep(0)
        if self.fails:
            raise UnavailableError("DOWN", "down")
        return None if self.row.revision == newer_than else self.row

    async def write(
        self, identity: Identity, vocabulary: Vocabulary, *, expected_revision: int | None = None
    ) -> VocabularyRow:
        self.row = VocabularyRow(vocabulary, self.row.revision + 1)
        return self.row


def call_of(tenant_id: str = "acme") -> CallContext:
    return CallContext(Identity(tenant_id, "ann", Role.EDITOR, Scope.WRITE), "r", time.monotonic() + 60)


async def test_a_change_is_noticed_within_seconds_and_read_once() -> None:
    now, store = [100.0], Store()
    reader = VocabularyReader(store, clock=lambda: now[0])
    assert (await reader.read(call_of())).is_empty
    await store.write(call_of().identity, Vocabulary(("own term",)))
    await asyncio.gather(*(reader.read(call_of()) for _ in range(20)))
    assert store.read_count == 1, "within its two seconds nothing is read again"
    now[0] += 2.5
    found = await asyncio.gather(*(reader.read(call_of()) for _ in range(20)))
    assert store.read_count == 2, "twenty searches at once read it once"
    assert all(one.phrases_in("my own terms") for one in found)


async def test_a_change_by_this_process_holds_from_the_next_search_on() -> None:
    store = Store()
    reader = VocabularyReader(store, clock=lambda: 100.0)
    assert (await reader.read(call_of())).is_empty
    await store.write(call_of().identity, Vocabulary(("own term",)))
    reader.forget("acme")
    assert not (await reader.read(call_of())).is_empty


async def test_known_words_serve_on_while_the_store_is_down() -> None:
    now, store = [100.0], Store()
    store.row = VocabularyRow(Vocabulary(("own term",)), 1)
    reader = VocabularyReader(store, clock=lambda: now[0])
    await reader.read(call_of())
    store.fails = True
    now[0] += 10
    assert (await reader.read(call_of())).phrases_in("own term")
    with pytest.raises(UnavailableError):
        await reader.read(call_of("globex"))


async def test_tenants_kept_are_bounded() -> None:
    reader = VocabularyReader(Store(), clock=lambda: 100.0)
    for number in range(400):
        await reader.read(call_of(f"tenant-{number}"))
    assert len(reader._kept) <= 256


def test_words_that_all_begin_alike_take_no_more_looks_than_the_question_has_words() -> None:
    class Counted(str):
        looks = 0
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            Counted.looks += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    index = VocabularyIndex(Vocabulary(tuple(f"alpha n{place}" for place in range(5_000))))
    fine = [Counted("alpha") for _ in range(500)]
    assert index._terms.found_in(fine) == []
    assert Counted.looks <= 4 * len(fine)
    assert index.phrases_in("alpha n4999 alpha n1") == (analyze("alpha n4999").fine, analyze("alpha n1").fine)
