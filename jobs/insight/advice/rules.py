"""Advice on a job: the rules in the order in which they pay, each a pure function of the evidence.

`advice_on` is called by the api, with what `jobs.insight.advice.gathering` has read. A rule says nothing where evidence
is missing; thresholds are constants beside the rules, with their reasons.
"""

from collections.abc import Callable

from jobs.insight.advice.batch import batch_and_rate
from jobs.insight.advice.cache import streaming_and_cache
from jobs.insight.advice.changes import is_possible
from jobs.insight.advice.evidence import Evidence, Proposal
from jobs.insight.advice.gpus import gpus, hosts
from jobs.insight.advice.learning import early_stopping, pretrained_base
from jobs.views.advice import Advice

# The order of the articles on scaling: what needs no new hardware comes first.
RULES: tuple[Callable[[Evidence], Proposal | None], ...] = (
    pretrained_base,
    early_stopping,
    batch_and_rate,
    streaming_and_cache,
    gpus,
    hosts,
)


def advice_on(evidence: Evidence) -> list[Advice]:
    """What to change, in the order in which to try it; empty where nothing is to gain, or nothing known."""
    proposals = [proposal for rule in RULES if (proposal := rule(evidence)) is not None]
    spec, site, sizes = evidence.spec, evidence.site, evidence.sizes
    possible = [one for one in proposals if is_possible(spec, one.change, site, sizes)]
    return [proposal.numbered(number) for number, proposal in enumerate(possible, start=1)]
