"""Web sites as sources: sitemaps and crawls that obey their rules and reach nothing private."""
