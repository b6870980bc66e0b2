"""Runs a script: a person's own training code, in a process that can reach only what it needs."""
