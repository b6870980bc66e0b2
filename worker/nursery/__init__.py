"""Processes that are forked from one that has imported everything, so that an attempt starts warm.

The worker keeps a `template` running (`keeper`). For an attempt the template forks a supervisor, and that forks a
process for `horovodrun` before it knows any secret. That one forks the ranks. So their parents are those of processes
that were started cold, and each `becomes` what it is for. On a host that does not lead the attempt, the template forks
the `parent` of each rank, for a `connector` that ssh has started.
"""
