"""Copies what jobs leave on this host to the store, and fetches what an attempt starts from. See `jobs.copies`.

`copier` runs in a process of its own beside the worker, which `keeper` keeps running. `fetching` runs in the supervisor
of an attempt before its ranks start.
"""
