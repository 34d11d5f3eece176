"""`corpusmesh search` and `corpusmesh ask`."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.explanations import print_explanation, print_stages, print_understanding
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.session import Session
from corpusmesh_core.errors import InternalError

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh.retrieve.v1.answer_service_pb2 import AnswerSummary
    from corpusmesh.retrieve.v1.retrieval_service_pb2 import RetrievalPlan, SearchChunksResponse, SearchHit
    from corpusmesh.type.v1.place_pb2 import Place
    from corpusmesh_app.cli.shapes import Shape
    from corpusmesh_client import CorpusMeshClient

_PASSAGE_CHARACTERS = 400
_PAGE_SIZE = 200
_SHOWN_LEAVES = 3
_MARKER = re.compile(r"\[ID:\d+\]")

OptionalKnowledgeBases = Annotated[
    list[str] | None,
    typer.Option(
        "--kb",
        help="Knowledge base; may be given several times. Without one the mesh picks.",
    ),
]
Plan = Annotated[
    str,
    typer.Option(
        help="How to search: fast, balanced, thorough; hybrid, lexical, vector; adaptive, term-coverage, "
        "reciprocal-rank, min-max, z-score; or a JSON object."
    ),
]


_GRAPH_KINDS = {
    "entity": "entity",
    "relation": "relation",
    "community_report": "report",
    "description": "description",
    "graph_table": "what the graph says",
}
Tree = Annotated[
    str,
    typer.Option(
        "--tree",
        help="How trees of summaries take part: off, collapsed, traversal, hierarchical; empty for the plan's own way.",
    ),
]

Graph = Annotated[
    str,
    typer.Option(
        "--graph",
        help="How graphs take part: off, page-rank, local, global, hybrid, mix, naive, knowledge, adjacency, "
        "community-local, community-global, drift; with settings behind a colon where they differ from the defaults, "
        "adjacency:hops=3,relation_rerank=model; empty for the plan's own way.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    command(app, "search")(search)
    command(app, "ask")(ask)


async def search(  # noqa: PLR0913 - an option each
    session: Session,
    text: Annotated[str, typer.Argument(help="Question or words.")],
    knowledge_bases: OptionalKnowledgeBases = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=1000, help="Hits.")] = 10,
    plan: Plan = "",
    tree: Tree = "",
    graph: Graph = "",
    explain: Annotated[bool, typer.Option("--explain", help="Show every candidate, score and stage.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Show whole passages.")] = False,
) -> None:
    """Search knowledge bases and show the passages found, best first."""
    from corpusmesh_app.cli.graph_plans import with_graph
    from corpusmesh_app.cli.plans import parse_plan, with_tree_mode
    from corpusmesh_app.cli.retrieval_shapes import search_shape

    wanted = with_graph(with_tree_mode(parse_plan(plan), tree), graph)
    async with session.client() as client:
        names = await resolve_names(client, knowledge_bases or [])
        response = await _search_pages(client, names, text, wanted, top_k, explain=explain)

    def render(console: "Console") -> None:
        for rank, hit in enumerate(response.hits, start=1):
            print_hit(console, rank, hit, full=full)
        if not response.hits:
            console.print("Nothing found.")
        if response.unreachable:
            session.output.message(f"Did not answer: {', '.join(response.unreachable)}; the hits come from the others.")
        print_understanding(
            console, response.standalone_query, response.inferred_conditions, response.retrieval if explain else ""
        )
        if not names:
            print_snapshots(console, response.snapshots)
        if response.HasField("explanation"):
            print_explanation(session, console, response.explanation)

    session.output.result({"query": text, **search_shape(response)}, render)


async def _search_pages(
    client: "CorpusMeshClient", names: list[str], text: str, plan: "RetrievalPlan", top_k: int, *, explain: bool
) -> "SearchChunksResponse":
    response = await client.search(names, text, plan=plan, page_size=min(top_k, _PAGE_SIZE), explain=explain)
    token = response.next_page_token
    while token and len(response.hits) < top_k:
        page_size = min(top_k - len(response.hits), _PAGE_SIZE)
        page = await client.search(names, text, plan=plan, page_size=page_size, page_token=token)
        response.hits.extend(page.hits)
        token = page.next_page_token
    response.next_page_token = token
    return response


async def ask(  # noqa: PLR0913 - an option each
    session: Session,
    text: Annotated[str, typer.Argument(help="Question.")],
    knowledge_bases: OptionalKnowledgeBases = None,
    plan: Plan = "",
    graph: Graph = "",
    model_free: Annotated[
        bool, typer.Option("--model-free", help="Answer with sentences of the evidence, without a language model.")
    ] = False,
    max_evidence_tokens: Annotated[int, typer.Option(help="Tokens of evidence; 0 for the default.")] = 0,
    explain: Annotated[bool, typer.Option("--explain", help="Show every stage, and how sure the answer is.")] = False,
    conversation: Annotated[
        str, typer.Option(help='Conversation that question and answer are added to; "new" begins one.')
    ] = "",
) -> None:
    """Answer a question from knowledge bases, with citations."""
    from corpusmesh_app.cli.graph_plans import with_graph
    from corpusmesh_app.cli.plans import parse_plan

    wanted = with_graph(parse_plan(plan), graph)
    async with session.client() as client:
        names = await resolve_names(client, knowledge_bases or [])
        continued = await _conversation_name(client, conversation, names)
        live: Callable[[str], None] | None = None if session.output.as_json else print_piece
        shape, summary = await stream_answer(
            client,
            names,
            text,
            plan=wanted,
            model_free=model_free,
            max_evidence_tokens=max_evidence_tokens,
            conversation=continued,
            live=live,
        )

    if continued:
        shape["conversation"] = continued
    searched = cast("list[str]", shape["snapshots"])

    def render(console: "Console") -> None:
        print_citations(console, summary)
        if not (names or continued):
            print_snapshots(console, searched)
        if explain:
            console.print(f"Confidence: {summary.confidence:.2f}")
            print_understanding(console, "", [], summary.retrieval)
            print_stages(session, console, summary.stages)
        if continued:
            session.output.message(f"Conversation {continued}")

    session.output.result(shape, render)


async def _conversation_name(client: "CorpusMeshClient", conversation: str, names: list[str]) -> str:
    from corpusmesh_client.names import resource_name

    if conversation == "new":
        return (await client.conversations.create(knowledge_bases=names)).name
    return resource_name("conversations", conversation) if conversation else ""


async def stream_answer(
    client: "CorpusMeshClient",
    knowledge_bases: list[str],
    question: str,
    *,
    plan: "RetrievalPlan | None" = None,
    model_free: bool = False,
    max_evidence_tokens: int = 0,
    conversation: str = "",
    live: Callable[[str], None] | None = None,
) -> "tuple[Shape, AnswerSummary]":
    """Ask a question and show the answer as it is made.

    Args:
        client: The client.
        knowledge_bases: Names of the knowledge bases.
        question: The question.
        plan: How to search for evidence.
        model_free: Whether to answer without a language model.
        max_evidence_tokens: Tokens of evidence; 0 for the mesh's default.
        conversation: Name of the conversation that question and answer are added to; "" for none.
        live: Handed every piece of the text as it comes.

    Returns:
        The answer in JSON, and its summary.

    Raises:
        InternalError: If the stream ended without a summary.
    """
    from corpusmesh.retrieve.v1.answer_service_pb2 import AnswerSummary, EvidenceList
    from corpusmesh_app.cli.retrieval_shapes import answer_shape

    evidence, summary, ended, streamed = EvidenceList(), AnswerSummary(), False, False
    pieces = client.answer(
        knowledge_bases,
        question,
        plan=plan,
        model_free=model_free,
        max_evidence_tokens=max_evidence_tokens,
        conversation=conversation,
    )
    async for response in pieces:
        kind = response.WhichOneof("piece")
        if kind == "evidence":
            evidence = response.evidence
        elif kind == "text_delta" and live is not None:
            live(response.text_delta)
            streamed = True
        elif kind == "summary":
            summary, ended = response.summary, True
    if not ended:
        raise InternalError("ANSWER_CUT", "the answer broke off before its end; ask again")
    if live is not None and not streamed:
        live(summary.text)
    return answer_shape(question, evidence, summary), summary


async def resolve_names(client: "CorpusMeshClient", knowledge_bases: list[str]) -> list[str]:
    """Find knowledge bases by name, identifier or display name.

    Args:
        client: The client.
        knowledge_bases: What was given.

    Returns:
        Their names.
    """
    return [(await client.resolve_knowledge_base(entry)).name for entry in knowledge_bases]


def print_citations(console: "Console", summary: "AnswerSummary") -> None:
    """Print the citations of an answer: document, page and passage of each.

    Args:
        console: Where to.
        summary: The answer.
    """
    console.print()
    if summary.abstained and summary.method == summary.METHOD_MODEL:
        console.print("(The evidence does not carry an answer.)")
    for citation in summary.citations:
        console.print(f"[ID:{citation.marker}] {_where(citation.hit)}", style="bold")
        claim = _claim_before(summary.text, citation.marker)
        console.print(plain(f"    {passage_around(citation.hit.text, claim)}"))
        for leaf in citation.places:
            console.print(plain(f"    stands in {_place(leaf.title, leaf.document, leaf.place)}"), style="dim")
    print_understanding(console, summary.standalone_question, summary.inferred_conditions, "")
    for note in summary.notes:
        console.print(plain(f"Note: {note}"), style="dim")


def print_snapshots(console: "Console", snapshots: Sequence[str]) -> None:
    """Print which knowledge bases the mesh picked.

    Args:
        console: Where to.
        snapshots: Names of the snapshots that were searched.
    """
    picked = ", ".join(name.split("/")[1] for name in snapshots)
    console.print(plain(f"Picked: {picked or 'no knowledge base'}"), style="dim")


def print_piece(text: str) -> None:
    """Print a piece of an answer as it comes.

    Args:
        text: The piece.
    """
    typer.echo(plain(text), nl=False)


def _where(hit: "SearchHit") -> str:
    kind = _GRAPH_KINDS.get(hit.kind, "")
    if kind:
        beneath = "1 passage" if len(hit.leaves) == 1 else f"{len(hit.leaves) or 'no'} passages"
        return plain(" · ".join(filter(None, (hit.title, f"{kind} of {beneath}"))))
    if not hit.layer:
        return plain(_place(hit.title, hit.document, hit.place))
    # Its page is that of its first passage; it is of all of them, and they follow.
    where = _place(hit.title, hit.document, hit.place, with_page=False)
    beneath = "1 passage" if len(hit.leaves) == 1 else f"{len(hit.leaves) or 'no'} passages"
    return plain(" · ".join(filter(None, (where, f"summary on layer {hit.layer} of {beneath}"))))


def _place(title: str, document: str, place: "Place", *, with_page: bool = True) -> str:
    parts = [place.display_name or document]
    if title and title != place.display_name:
        parts.append(title)
    if place.page and with_page:
        parts.append(f"page {place.page}")
    if place.heading_path:
        parts.append(" > ".join(place.heading_path))
    return " · ".join(filter(None, parts))


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _PASSAGE_CHARACTERS else flat[: _PASSAGE_CHARACTERS - 1] + "…"


def _claim_before(answer: str, marker: int) -> str:
    before = answer.partition(f"[ID:{marker}]")[0]
    return _MARKER.split(before)[-1].strip()


def passage_around(text: str, claim: str) -> str:
    """Cut a passage so that it shows what an answer took from it.

    Args:
        text: The passage.
        claim: What the answer says; where the passage does not hold it word for word, the beginning is shown.

    Returns:
        At most 400 characters on one line, `…` where something is left out.
    """
    flat, wanted = " ".join(text.split()), " ".join(claim.split())
    place = flat.find(wanted) if wanted else 0
    spare = max(0, _PASSAGE_CHARACTERS - len(wanted))
    start = max(0, min(place - spare // 2, len(flat) - _PASSAGE_CHARACTERS))
    if start == 0:
        return _shorten(flat)
    return "…" + _shorten(flat[start:])


def print_hit(console: "Console", rank: int, hit: "SearchHit", *, full: bool) -> None:
    """Print a hit: where it stands, its scores, its text.

    Args:
        console: Where to.
        rank: Its place among the hits, from 1.
        hit: The hit.
        full: Whether to show all of a long text, and all passages that a summary stands on.
    """
    scores = hit.scores
    console.print(f"{rank}. {_where(hit)}", style="bold")
    console.print(
        f"   similarity {scores.similarity:.3f} (terms {scores.term_similarity:.3f}, vector "
        f"{scores.vector_similarity:.3f}, lexical {scores.lexical_score:.2f}; ranks lexical "
        f"{scores.lexical_rank or '-'}, vector {scores.vector_rank or '-'}"
        + (f"; reranked {scores.rerank_similarity:.3f}" if scores.HasField("rerank_similarity") else "")
        + ")",
        style="dim",
    )
    boxes = "; ".join(
        f"page {box.page}: {box.left:.0f},{box.top:.0f}–{box.right:.0f},{box.bottom:.0f}" for box in hit.place.boxes[:4]
    )
    parts = [" of ".join(filter(None, (f"{hit.kind} {hit.record_id}", hit.place.version))), boxes]
    console.print(plain(f"   {'; '.join(filter(None, parts))}"), style="dim")
    for name, value in (
        ("joined with", ", ".join(hit.merged_record_ids)),
        ("led to by", ", ".join(hit.via_record_ids)),
        ("picture", hit.picture),
        ("address", hit.url),
    ):
        if value:
            console.print(plain(f"   {name} {value}"), style="dim")
    text = hit.text if full else _shorten(hit.text)
    if text:
        console.print("\n".join(f"   {line}" for line in plain(text).splitlines()))
    for leaf in hit.leaves if full else hit.leaves[:_SHOWN_LEAVES]:
        console.print(plain(f"   stands on {_place(leaf.title, leaf.document, leaf.place)}"), style="dim")
    if not full and len(hit.leaves) > _SHOWN_LEAVES:
        console.print(f"   and {len(hit.leaves) - _SHOWN_LEAVES} more; --full shows them", style="dim")
    console.print()
