"""What a job is asked to be and can become: spec, plan, records, states, and what a spec may name. Pure."""
