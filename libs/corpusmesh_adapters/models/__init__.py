"""Embedding models: in this process through ONNX Runtime, or behind an OpenAI-compatible endpoint."""
