"""Ports: what the mesh asks of outside systems, one small Protocol per role."""
