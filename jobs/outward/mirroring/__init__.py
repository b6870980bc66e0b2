"""Copies of jobs for other tracking servers: what such a server is still to get of a job, and how much it has got.

Called by `worker.outward.mirror`, which sends it.
"""
