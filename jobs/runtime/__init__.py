"""Used by every process of the service: settings, logs, hints, marks of processes, keys and addresses."""
