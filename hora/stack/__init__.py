"""The stack that `hora up` starts on this machine: database, broker, api and worker, kept alive by a keeper."""
