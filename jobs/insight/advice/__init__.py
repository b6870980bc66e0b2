"""What to do next, and what it would cost: advice on a job that ran, and a quote for one that is to be submitted.

`rules.advice_on`, of what `gathering.evidence_on` reads, and `quote.preview` are the entrances; `shape` is what they
answer.
"""
