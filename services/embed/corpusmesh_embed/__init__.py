"""The embed service: vectors and token counts for the other services of the mesh."""
