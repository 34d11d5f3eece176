"""The graph service: graphs of entities and relations over chunks."""
