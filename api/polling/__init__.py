"""Cheap answers for clients that poll: versions, entity tags, and reads that polls share."""
