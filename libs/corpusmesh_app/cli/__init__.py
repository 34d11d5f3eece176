"""The command line. This module imports nothing heavy, so that `--help` and completion are quick."""


def main() -> None:
    """Run the command line and exit with its status."""
    from corpusmesh_app.cli.app import run

    run()
