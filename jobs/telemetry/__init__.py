"""The measurements of ranks and hosts: stored by `ingest`, read as series, thinned when they are old."""
