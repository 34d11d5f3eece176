"""The words of a tenant: read for searches, and changed by its members."""
