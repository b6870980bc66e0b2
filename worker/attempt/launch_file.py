"""What the launch file of every host says (`jobs.model.launch`), in the service and without it."""

from jobs.model.launch import Launch
from jobs.model.spec import Spec
from jobs.runtime.settings import Settings
from worker.attempt.layout import HostShare, Layout
from worker.attempt.paths import AttemptPaths


def basic_launch(
    job_id: str, spec: Spec, paths: AttemptPaths, settings: Settings, layout: Layout, share: HostShare
) -> Launch:
    """The launch file for the ranks of this share, with no registered data, no script, and no lease."""
    return Launch(
        job_id=job_id,
        attempt=paths.number,
        spec=_with_cache_of_host(spec, settings.cache_limit_gb),
        gpus=layout.gpus,
        device="gpu" if share.gpu_uuids or share.own_gpus else "cpu",
        threads_per_rank=share.threads_per_rank,
        gpu_uuids=list(share.gpu_uuids),
        data_roots=settings.data_root_list,
        cache_dir=str(settings.cache_folder),
        weights_dir=str(settings.home / "weights"),
        models=settings.model_list,
        records_dir=str(paths.records),
        logs_dir=str(paths.logs),
        storage_limit_bytes=settings.max_job_storage_bytes,
        checkpoints_dir=str(paths.checkpoints),
        artifacts_dir=str(paths.artifacts),
        stop_path=str(paths.stop_file),
        space_wait_s=settings.space_wait_s,
    )


def _with_cache_of_host(spec: Spec, limit_gb: float | None) -> Spec:
    """The spec with no larger cache than the operator allows."""
    if limit_gb is None or spec.dataset is None or spec.dataset.cache_limit_gb <= limit_gb:
        return spec
    return spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"cache_limit_gb": limit_gb})})
