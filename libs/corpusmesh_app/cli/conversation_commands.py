"""`corpusmesh conversations …` and `corpusmesh chat`."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from corpusmesh_app.cli.answer_commands import (
    OptionalKnowledgeBases,
    Plan,
    print_citations,
    print_piece,
    resolve_names,
    stream_answer,
)
from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.output import plain
from corpusmesh_app.cli.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from corpusmesh.retrieve.v1.conversation_service_pb2 import Message

ConversationArgument = Annotated[str, typer.Argument(help="Conversation: its name or identifier.")]
_END = "/quit"
_PROMPT = "> "


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    command(app, "chat")(chat)
    group = typer.Typer(help="Your conversations: questions and answers that you go on from.", no_args_is_help=True)
    app.add_typer(group, name="conversations")
    command(group, "list")(list_all)
    command(group, "show")(show)
    command(group, "delete")(delete)


async def chat(
    session: Session,
    knowledge_bases: OptionalKnowledgeBases = None,
    conversation: Annotated[str, typer.Option(help="Conversation to go on with; by default a new one.")] = "",
    plan: Plan = "",
    model_free: Annotated[
        bool, typer.Option("--model-free", help="Answer with sentences of the evidence, without a language model.")
    ] = False,
) -> None:
    """Ask question after question, a line each; what was said before counts. Ends with /quit or the end of input."""
    from corpusmesh_app.cli.plans import parse_plan
    from corpusmesh_client.names import resource_name

    wanted = parse_plan(plan)
    turns: list[dict[str, object]] = []
    live: Callable[[str], None] | None = None if session.output.as_json else print_piece
    async with session.client() as client:
        names = await resolve_names(client, knowledge_bases or [])
        if conversation:
            found = await client.conversations.get(resource_name("conversations", conversation))
        else:
            found = await client.conversations.create(knowledge_bases=names)
        session.output.message(f"Conversation {found.name}; {_END} ends it.")
        while question := await _next_question(is_shown=not session.output.as_json):
            shape, summary = await stream_answer(
                client, names, question, plan=wanted, model_free=model_free, conversation=found.name, live=live
            )
            turns.append(shape)
            if not session.output.as_json:
                print_citations(session.output.console, summary)
    session.output.result({"conversation": found.name, "answers": turns}, lambda _: None)


async def list_all(session: Session) -> None:
    """List your conversations, the last used first."""
    from corpusmesh_app.cli.conversation_shapes import conversation_shape
    from corpusmesh_client.names import identifier_of

    async with session.client() as client:
        found = [conversation async for conversation in client.conversations.list()]
    rows = [
        (
            identifier_of(entry.name),
            entry.title,
            entry.message_count,
            ", ".join(map(identifier_of, entry.knowledge_bases)) or "-",
            entry.update_time.ToJsonString(),
        )
        for entry in found
    ]
    columns = ("ID", "TITLE", "MESSAGES", "KNOWLEDGE BASES", "LAST USED")
    table = session.output.table(columns, rows, empty="No conversation yet; `corpusmesh chat` begins one.")
    session.output.result({"conversations": [conversation_shape(entry) for entry in found]}, table)


async def show(session: Session, name: ConversationArgument) -> None:
    """Show what was said in a conversation."""
    from corpusmesh_app.cli.conversation_shapes import conversation_shape, message_shape
    from corpusmesh_client.names import resource_name

    async with session.client() as client:
        conversation = await client.conversations.get(resource_name("conversations", name))
        messages = [message async for message in client.conversations.messages(conversation.name)]

    def render(console: "Console") -> None:
        console.print(plain(conversation.title or "(no question yet)"), style="bold")
        for message in messages:
            _print_message(console, message)

    shape = {"conversation": conversation_shape(conversation), "messages": [message_shape(entry) for entry in messages]}
    session.output.result(shape, render)


async def delete(
    session: Session,
    name: ConversationArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a conversation with all its messages."""
    from corpusmesh_client.names import resource_name

    full_name = resource_name("conversations", name)
    async with session.client() as client:
        if not (yes or session.output.as_json):
            conversation = await client.conversations.get(full_name)
            typer.confirm(f"Delete {plain(conversation.title) or full_name}?", abort=True, err=True)
        await client.conversations.delete(full_name)
    session.output.result({"deleted": full_name}, lambda console: console.print(f"Deleted {full_name}"))


def _print_message(console: "Console", message: "Message") -> None:
    from corpusmesh.retrieve.v1.retrieval_service_pb2 import Turn

    is_user = message.speaker == Turn.SPEAKER_USER
    console.print()
    console.print("You" if is_user else "CorpusMesh", style="bold")
    if message.erased:
        console.print("(A document that this answer was made from was deleted, and the answer with it.)", style="dim")
    elif message.withheld:
        console.print("(You cannot see now what this answer was made from.)", style="dim")
    else:
        console.print(plain(message.text))
        if message.partial:
            console.print("(This answer is not whole.)", style="dim")


async def _next_question(*, is_shown: bool) -> str:
    """Read the next line that says something; "" at the end."""
    while True:
        if is_shown and sys.stdin.isatty():
            typer.echo(_PROMPT, nl=False, err=True)
        line = await _read_line()
        if not line or line.strip() == _END:
            return ""
        if line.strip():
            return line.strip()


async def _read_line() -> str:
    import asyncio

    if sys.stdin.isatty():
        # Waits in the loop, so that an interrupt ends it at once; a terminal is readable when a line is complete.
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(sys.stdin.fileno(), readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline()
