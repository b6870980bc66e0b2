"""Copies what jobs leave on this host to the store, and fetches what an attempt starts from. See `jobs.copies`.

`copier` and `old` run in a process of their own beside the worker, which `keeper` keeps running: one copies, the other
removes what is kept no more. `fetching` runs in the supervisor of an attempt before its ranks start.
"""
