"""Other services of the mesh, reached over gRPC."""

from corpusmesh_adapters.peers.embedder import GrpcEmbedder

__all__ = ["GrpcEmbedder"]
