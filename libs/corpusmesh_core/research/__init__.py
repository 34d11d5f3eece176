"""Deep research: the tree of questions of one request, its budget, and evidence from several sources."""
