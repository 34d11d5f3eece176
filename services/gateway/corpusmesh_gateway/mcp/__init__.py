"""The Model Context Protocol on the gateway: tools that read, on the same handlers as every other door.

The library is imported by the first request and not before: that takes as long as the rest of a start.
"""
