"""The retrieve service: questions in, ranked evidence and cited answers out."""
