"""Everything that goes on after the request that began it, and what ends it when its user loses the right.

A new table with a user in it, a new live stream, or a new thread of a worker needs a line here: it says what becomes of
what a user began. Each line that names a check has a test of that check.
"""

# Tables whose rows belong to a user, and what such a row does later.
ROWS_OF_USERS = {
    "jobs": "a queued job is placed: `rights_now.may_train`; a running one goes on; to resume it is to submit it again",
    "studies": "it submits when somebody resumes it, who must be allowed to submit, as its owner must; a search also"
    " begins trials: `rights_now.why_not_train`, before each",
    "webhooks": "it sends: `rights_now.why_no_messages`, before each try",
    "views": "it does nothing; each change of it is a request of its owner, or of a member of its project",
    "mail_hours": "it only counts",
    "uploads": "each piece, and the dataset made of it, is a request of its owner",
    "code_senders": "it lets its owner read the archive; to run it is a request of its own, with the scope code",
    "dataset_versions": "a worker looks at the data once; then everybody may train on it",
    "tokens": "a token, a link or a session is looked up again every 3 s; revoking a token ends its links and sessions",
    "project_members": "it is a right itself, and is asked for at each act",
    "usage_hours": "it decides only whose turn it is",
    "deleted_attempts": "it only counts in the usage of the past",
    "account_standings": "it is for those who look at the queue, and goes with the last job that waits",
    "idempotency_keys": "a repeat only reads the first answer",
    "study_notes": "it does nothing",
    "articles": "it does nothing",
    "article_versions": "it does nothing",
    "audit_entries": "it does nothing",
}

# Live streams, by the class of what they watch. All end with their token; everybody may read everything.
STREAMS = {"JobTopic": "/v1/jobs/{job_id}/events", "FeedTopic": "/v1/events"}

# Threads of a worker, and in whose name they act.
THREADS = {
    "Notifier": "the owners of webhooks: it asks before each message",
    "Lookout": "nobody: it wakes the threads that have work, which ask",
    "Agent": "the owners of jobs: its dispatcher places only jobs whose owners may submit",
    "Mirror": "the operator, who sets the address of the other server",
    "DatasetFetcher": "the owners of jobs, which were placed on its host: it fetches the data that they name",
    "Validator": "nobody: what it looks at was registered by somebody who might",
    "Retention": "the operator",
    "IdleWatch": "the owners of jobs and admins, who said what to do with idle slots: it only takes slots away",
    "Forecaster": "nobody: it says when jobs are expected to start, and changes no job",
    "Searcher": "the owners of searches: `rights_now.why_not_train`, before each trial",
    "Sampler": "the operator",
    "Desk": "the owners of jobs: it asks Slurm only for jobs whose owners may submit, and begins no others",
    "CopierKeeper": "the operator, who sets the address of the store",
    "OldCopies": "the operator; a person's removal was stored in their name",
    "Nursery": "nobody: it keeps a process ready for attempts, which the agent begins",
    "SpaceWatch": "the operator",
    "Sshd": "the operator",
}
