"""`corpusmesh models …` and `corpusmesh setup`."""

from typing import Annotated

import typer

from corpusmesh_app.cli.command import command
from corpusmesh_app.cli.session import Session


def register(app: typer.Typer) -> None:
    """Add the commands.

    Args:
        app: The application.
    """
    group = typer.Typer(help="Embedding models of this machine.", no_args_is_help=True)
    app.add_typer(group, name="models")
    command(group, "list", remote=False)(list_all)
    command(group, "add", remote=False)(add)
    command(app, "setup", remote=False)(setup)


async def list_all(session: Session) -> None:
    """List the models that can be installed, and which are."""
    from corpusmesh_adapters.models.install import installed_models
    from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME, MODELS

    installed = installed_models()
    models = [
        {
            "model": entry.name,
            "installed": installed[entry.name] is not None,
            "default": entry.name == DEFAULT_MODEL_NAME,
            "dimension": entry.dimension,
            "max_input_tokens": entry.max_input_tokens,
            "licence": entry.licence,
            "download_bytes": entry.download_bytes,
            "summary": entry.summary,
        }
        for entry in MODELS.values()
    ]
    rows = [
        (
            entry["model"],
            "installed" if entry["installed"] else "",
            entry["dimension"],
            entry["max_input_tokens"],
            entry["licence"],
            entry["summary"],
        )
        for entry in models
    ]
    columns = ("MODEL", "", "DIMENSION", "TOKENS", "LICENCE", "FOR")
    session.output.result({"models": models}, session.output.table(columns, rows, empty=""))


async def add(
    session: Session,
    model: Annotated[str, typer.Argument(help="Model, as `models list` names it.")],
) -> None:
    """Install a model, or find it installed and check it."""
    import asyncio

    from corpusmesh_adapters.models.install import install_model

    session.output.message(f"Installing {model}")
    manifest = await asyncio.to_thread(install_model, model)
    session.output.result(
        {"model": manifest.model, "dimension": manifest.dimension, "source": manifest.source},
        lambda console: console.print(f"{manifest.model} is ready: {manifest.dimension} dimensions."),
    )


async def setup(session: Session) -> None:
    """Install what the embedded servers and the default model need; does nothing where it is there."""
    import asyncio

    from corpusmesh_adapters.models.install import install_model
    from corpusmesh_adapters.models.registry import DEFAULT_MODEL_NAME
    from corpusmesh_app.stack import find_java, install_opensearch

    java = await asyncio.to_thread(find_java)
    session.output.message(f"Java {java.version} at {java.program}")
    session.output.message("Installing OpenSearch")
    home = await asyncio.to_thread(install_opensearch)
    session.output.message(f"Installing the model {DEFAULT_MODEL_NAME}")
    manifest = await asyncio.to_thread(install_model, DEFAULT_MODEL_NAME)
    session.output.result(
        {"java": str(java.program), "opensearch": str(home), "model": manifest.model},
        lambda console: console.print(f"Ready: OpenSearch in {home}, model {manifest.model}."),
    )
