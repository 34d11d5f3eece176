"""`python -m corpusmesh_app` is `corpusmesh`."""

from corpusmesh_app.cli import main

main()
