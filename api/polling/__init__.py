"""Answers for clients that ask again and again: versions, entity tags, and reads that polls share."""
