"""Registered datasets with their uploads, and the artifacts that jobs leave."""
