"""Chat completions in the shape of OpenAI's API, on the same handler as every other answer."""
