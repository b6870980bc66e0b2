"""One rank of a training job: `python -m trainer LAUNCH_JSON`, started by horovodrun once for every rank.

Stands on `jobs.model.spec`, `jobs.model.plan` and `jobs.model.records` alone. What it is told comes in the launch file;
what it tells goes out as records (`jobs/model/records.py`), a log, checkpoints and artifacts. From the top:

    __main__      log, first record, stop watch; then everything slow
    session       the run from top to bottom: connect, data, build, restore, train, end
    loop          the training loop
    callbacks     warm-up, recording, early stopping, checkpointing: one class, one job
    data models plan checkpoint        what is trained on, trained, resolved and gone on from
    distributed   every collective
    stopping recorder exits            asked to leave, writing records, why a rank left
"""
