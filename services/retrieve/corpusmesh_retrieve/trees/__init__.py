"""Trees of summaries in a search: which nodes are asked for, what becomes of them, which chunks they stand for."""
