"""The live news of a job, a model for each kind."""

from jobs.views.jobs import EventView, Progress
from jobs.views.live import END, EndNews, JobState, Kind, LogNews, MetricsNews

News = EventView | JobState | Progress | MetricsNews | LogNews | EndNews

NEWS: dict[str, type[News]] = {
    Kind.EVENT: EventView,
    Kind.STATE: JobState,
    Kind.PROGRESS: Progress,
    Kind.METRICS: MetricsNews,
    Kind.LOGS: LogNews,
    END: EndNews,
}
