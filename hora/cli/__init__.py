"""The command line: one module a noun; `app` puts them together."""
