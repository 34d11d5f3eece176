"""Language models behind the OpenAI protocol."""

from corpusmesh_adapters.chat.openai import OpenAIChatModel, OpenAIChatSettings

__all__ = ["OpenAIChatModel", "OpenAIChatSettings"]
