"""What an end reason means to the owner of a job, and what they can do. Pure; used by the views of jobs.

The page, the command line and the client show these sentences. `jobs.model.states` has what follows for the job itself.
"""

from dataclasses import dataclass

from jobs.model.states import EndReason


@dataclass(frozen=True)
class Explanation:
    """Why a job ended, as a sentence, and what a person can do about it; None: it has not ended, or nothing."""

    cause: str | None
    remedy: str | None = None


EXPLANATIONS: dict[EndReason, Explanation] = {
    EndReason.COMPLETED: Explanation("It came to its end."),
    EndReason.EARLY_STOPPED: Explanation("The monitored metric stopped improving."),
    EndReason.PRUNED: Explanation("Its search ended it early: other trials were better."),
    EndReason.CANCELLED: Explanation("A person cancelled the job."),
    EndReason.DEPENDENCY: Explanation(
        "A job that it was waiting for failed or was cancelled, so no attempt began.",
        "Submit that job again. Then submit this one again, after the new one.",
    ),
    EndReason.RANK_FAILED: Explanation(
        "A rank died more often than max_restarts allows.",
        "Read the last lines of that rank. If memory ran out, try a smaller batch.",
    ),
    EndReason.OUT_OF_MEMORY: Explanation(
        "The batch does not fit into the device's memory.",
        "Try a smaller batch_size or half precision. A batch probe finds the largest batch that fits.",
    ),
    EndReason.STALLED: Explanation(
        "No rank made a step for as long as stall_timeout_s.",
        "Read what the ranks printed last. If one step really takes that long, raise stall_timeout_s.",
    ),
    EndReason.TIME_LIMIT: Explanation(
        "The attempt took longer than time_limit_s.", "Raise time_limit_s, or train for fewer epochs."
    ),
    EndReason.LAUNCH_FAILED: Explanation(
        "No rank started.", "Read the launcher's last lines. hora doctor checks the hosts."
    ),
    EndReason.HOST_LOST: Explanation(
        "A host stopped answering, was cut off from the others, or was shut down.",
        "Look for the missing host among the hosts: hora hosts, or its page.",
    ),
    EndReason.NO_DEVICE: Explanation(
        "A rank could not use the GPU that it was given.",
        "Read the error of the attempt. hora doctor on that host says what it can use.",
    ),
    EndReason.LEASE_EXPIRED: Explanation(
        "Its supervisor died, was stopped, or lost the database for too long.",
        "Check the host: hora hosts, or its page. Then submit the job again.",
    ),
    EndReason.NO_SPACE: Explanation(
        "A folder of its host was full, or could not be written.",
        "Make room on the host. hora hosts show, or its page, names the folder.",
    ),
    EndReason.NO_STORE: Explanation(
        "The store could not be reached, and only there is what the attempt starts from.",
        "hora doctor says what is wrong with the store. Then submit the job again.",
    ),
    EndReason.PREEMPTED: Explanation(
        "It released its slots for a job of higher priority, because its host is drained, or because Slurm takes its"
        " nodes back."
    ),
    EndReason.PAUSED: Explanation("A person paused the job, or nobody used its slots."),
    EndReason.IDLE: Explanation(
        "Nobody used its slots for as long as idle.for_s, and idle.action is stop.",
        "If it needs longer without its slots, raise idle.for_s.",
    ),
    EndReason.BAD_DATA: Explanation(
        "The data cannot be read, or does not fit the spec.",
        "Correct the data or the fields below dataset. Then submit the job again.",
    ),
    EndReason.SCRIPT_FAILED: Explanation(
        "The script ended with an error. Another attempt would do the same.",
        "Correct what its last lines name. Then send the code again.",
    ),
    EndReason.DIVERGED: Explanation(
        "The loss became NaN or infinite. Another attempt would come to the same.",
        "Lower learning_rate, or set warmup_epochs or clip_norm. Then submit the job again.",
    ),
    EndReason.WEIGHTS_DIFFER: Explanation(
        "The ranks did not train one model together: their weights differ.",
        "Average the gradients (hvd.DistributedOptimizer, DistributedDataParallel), and broadcast the first weights of"
        " rank 0. If each rank is to train a model of its own, call hora.run.compare_weights(False) first.",
    ),
    EndReason.INTERNAL_ERROR: Explanation(
        "The trainer failed. Another attempt would fail in the same way.",
        "Change what the error names. Then submit the job again.",
    ),
}
