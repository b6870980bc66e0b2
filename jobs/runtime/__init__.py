"""What every process of the service needs: settings, log lines, hints, marks of processes, keys and addresses."""
