"""The database: its tables, its engine, and the ways to read from it (pages, text search, binary rows)."""
