"""Stages of the worker: trees of documents, builds of trees of knowledge bases, and what they leave behind."""
