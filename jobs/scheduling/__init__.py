"""Who runs where and when: hosts, slots, the queue, quotas, and the pure placement that decides."""
