"""`python -m corpusmesh_app.cli`: the command line where its script is not on the path."""

from corpusmesh_app.cli import main

main()
