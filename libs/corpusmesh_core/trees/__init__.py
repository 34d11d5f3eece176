"""Trees of summaries over chunks: clustering, summaries, updates; pure functions of plain arrays (ADR-0012)."""
