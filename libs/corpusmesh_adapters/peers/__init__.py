"""Other services of the mesh, reached over gRPC."""

from corpusmesh_adapters.peers.candidates import EVALUATION_SERVICE_NAMES, GrpcCandidateJudge
from corpusmesh_adapters.peers.embedder import GrpcEmbedder

__all__ = ["EVALUATION_SERVICE_NAMES", "GrpcCandidateJudge", "GrpcEmbedder"]
