"""A job as data: its spec, plan, records and states, and the names that a spec may use. Pure."""
