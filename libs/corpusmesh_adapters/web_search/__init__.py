"""Search engines of the web, and the reader of the pages that they name."""

from corpusmesh_adapters.web_search.pages import FetchedWebPages, WebPageSettings
from corpusmesh_adapters.web_search.searxng import SearxngSearch
from corpusmesh_adapters.web_search.tavily import TavilySearch

__all__ = ["FetchedWebPages", "SearxngSearch", "TavilySearch", "WebPageSettings"]
