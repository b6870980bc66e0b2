"""Advice on a job: the rules, sorted by how well they pay. Each is a pure function of the evidence.

The api calls `advice_on` with what `jobs.insight.advice.gathering` read. Without evidence a rule proposes nothing.
Thresholds are constants beside the rules, with their reasons.
"""

from collections.abc import Callable

from jobs.insight.advice.batch import batch_and_rate
from jobs.insight.advice.cache import streaming_and_cache
from jobs.insight.advice.changes import is_possible
from jobs.insight.advice.evidence import Evidence, Proposal
from jobs.insight.advice.gpus import gpus, hosts
from jobs.insight.advice.pretrained import is_untried, pretrained_base
from jobs.insight.advice.stopping import early_stopping
from jobs.views.advice import Advice
from jobs.views.analysis import FindingKind

# Sorted as in the articles on scaling: changes that need no new hardware come first.
RULES: tuple[Callable[[Evidence], Proposal | None], ...] = (
    pretrained_base,
    early_stopping,
    batch_and_rate,
    streaming_and_cache,
    gpus,
    hosts,
)


def advice_on(evidence: Evidence) -> list[Advice]:
    """The advice, in the sequence in which to try it. Empty if nothing is to gain, or nothing is known."""
    # To make a job faster that learns nothing would gain nothing.
    rules = RULES if evidence.finding(FindingKind.NOT_LEARNING) is None else (batch_and_rate,)
    proposals = [proposal for rule in rules if (proposal := rule(evidence)) is not None]
    spec, site, sizes = evidence.spec, evidence.site, evidence.sizes
    possible = [proposal for proposal in proposals if is_possible(spec, proposal.change, site, sizes)]
    possible.sort(key=is_untried)  # what this job's own figures show comes before it
    return [proposal.numbered(number) for number, proposal in enumerate(possible, start=1)]
