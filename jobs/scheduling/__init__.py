"""Decides where and when jobs run: hosts, slots, the queue, quotas, and placement, which is pure."""
