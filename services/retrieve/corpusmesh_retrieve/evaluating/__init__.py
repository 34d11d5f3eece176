"""Golden sets, and what is measured with them."""
