"""The command tree and the last line of defence."""

import sys

import typer

from corpusmesh_app.cli import (
    admin_commands,
    answer_commands,
    chunk_commands,
    conversation_commands,
    document_commands,
    evaluation_commands,
    evaluation_set_commands,
    graph_commands,
    ingest_commands,
    knowledge_base_commands,
    ledger_commands,
    local_commands,
    mesh_commands,
    model_commands,
    research_commands,
    run_commands,
    source_commands,
    tree_commands,
    version_commands,
    vocabulary_commands,
)
from corpusmesh_app.cli.failures import ExitStatus


def build_app() -> typer.Typer:
    """Build the command tree.

    Returns:
        The application.
    """
    app = typer.Typer(
        name="corpusmesh",
        help="CorpusMesh turns documents into one searchable body of knowledge and answers from it with citations.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    mesh_commands.register(app)
    local_commands.register(app)
    knowledge_base_commands.register(app)
    ingest_commands.register(app)
    answer_commands.register(app)
    conversation_commands.register(app)
    research_commands.register(app)
    version_commands.register(document_commands.register(app))
    chunk_commands.register(app)
    run_commands.register(app)
    source_commands.register(app)
    tree_commands.register(app)
    graph_commands.register(app)
    vocabulary_commands.register(app)
    evaluation_set_commands.register(evaluation_commands.register(app))
    ledger_commands.register(app)
    model_commands.register(app)
    admin_commands.register(app)
    return app


def run() -> None:
    """Run the command line; a fault of ours ends in one line, or with `--debug` in its traceback."""
    try:
        build_app()()
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        text = (
            f"corpusmesh: internal fault ({type(error).__name__}); run it again with --debug and report what it shows"
        )
        sys.stderr.write(text + "\n")
        sys.exit(ExitStatus.FAILURE)
