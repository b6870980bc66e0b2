"""Copies of jobs for other tracking servers: how much of a job such a server has, and what to send next.

Called by `worker.outward.mirror`, which sends the data.
"""
