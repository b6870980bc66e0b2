"""Advice on a job that ran, and a quote for a job before it is submitted.

The entry points are `rules.advice_on`, with the evidence that `gathering.evidence_on` reads, and `quote.preview`. Their
results are models of `jobs.views.advice`.
"""
