"""One rank of a training job: `python -m trainer LAUNCH_JSON`, started by horovodrun once for every rank.

Of `jobs` it imports only `jobs.model.spec`, `jobs.model.plan`, `jobs.model.records` and `jobs.runtime.files`. Its
input is the launch file. Its output is records (`jobs/model/records.py`), a log, checkpoints and artifacts.

From the top:

    __main__      log, first record, stop watch; then everything slow
    session       the run from top to bottom: connect, data, build, restore, train, end
    loop          the training loop
    callbacks     warm-up, recording, early stopping, checkpointing: one class, one job
    data models trainable plan checkpoint   the data, the networks, the plan, what a restart continues from
    distributed   every collective
    stopping recorder errors           requests to leave, writing records, why a rank left
"""
