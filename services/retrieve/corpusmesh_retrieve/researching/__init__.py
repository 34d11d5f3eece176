"""Deep research: a question taken apart, each part searched, one answer from all that was found."""
