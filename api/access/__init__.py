"""Who calls and what they may do: tokens, sessions of the page, scopes and rate limits."""
