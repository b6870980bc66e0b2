"""Parquet: surveyed once, split within row groups, read in shuffled blocks."""
