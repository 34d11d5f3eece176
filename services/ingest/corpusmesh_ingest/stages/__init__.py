"""The stages of a run: each takes a claim on a batch of versions and tells what became of them."""
