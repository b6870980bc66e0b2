"""Access: remembered tokens, sessions of the page, and rate limits. Used by `api.callers`."""
