"""What the operator of a stack allows jobs to use. Made by the api from its settings, read by the checks of specs."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.runtime.settings import Settings


@dataclass(frozen=True)
class SitePolicy:
    """What the operator lets jobs use besides the catalog."""

    data_roots: Sequence[str] = ()  # absolute folders, and URLs
    models: Sequence[str] = ()  # module:function
    cache_limit_gb: float | None = None  # of a host's cache, in 10^9 bytes; None: as large as a spec asks for
    runs_code: bool = False  # whether jobs may run code that people send
    environments: Sequence[str] = ()  # for scripts, beside `default`
    installs_requirements: bool = False

    @property
    def folders(self) -> list[str]:
        """The data roots that are folders of a host."""
        return [root for root in self.data_roots if "://" not in root]

    @property
    def roots_text(self) -> str:
        """The data roots, for a message."""
        return ", ".join(self.data_roots) or "HORA_DATA_ROOTS is not set"


def site_policy(settings: Settings) -> SitePolicy:
    """The policy that these settings of an api describe."""
    return SitePolicy(
        data_roots=settings.data_root_list,
        models=settings.model_list,
        cache_limit_gb=settings.cache_limit_gb,
        runs_code=settings.code == "on",
        environments=list(settings.environment_paths),
        installs_requirements=settings.code_requirements == "on",
    )
