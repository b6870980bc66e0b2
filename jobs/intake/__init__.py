"""Turns what ranks wrote, records and logs, into rows. Used by supervisors, agents, and imports of runs."""
