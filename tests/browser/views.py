"""Every page of the dashboard, with what it shows. Used by the screenshots and by the tests of all pages.

The pages show the jobs of `tests.browser.scene`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hora.service import Service

SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
_SPEC = '{"dataset":"digits","batch_size":64,"learning_rate":0.002,"gpus":2,"lr_scaling":"sqrt"}'


@dataclass(frozen=True)
class View:
    """A page, and a text that it shows when its data has come. `{name}` stands for the id of what has that name."""

    path: str
    ready: str
    document: str = ""  # the pictures that the documents show: scheme and size
    document_px: int | None = None  # the height of these pictures, if not that of the window
    cursor_on: str = ""  # the chart that the mouse points at
    is_signed_in: bool = True
    refusal: str = ""  # the status of an answer that the browser logs


VIEWS: Mapping[str, View] = {
    "jobs": View("/", "long run", "light-wide dark-narrow"),
    "jobs-by-study": View("/?group=study", "digits scaling"),
    "jobs-by-field": View("/?group=model&metric=val_accuracy", "model mlp"),
    "jobs-filter": View("/?where=spec.batch_size>=64 or starred&where=status=succeeded", "spec.batch_size"),
    "jobs-saved-view": View("/?view={Baselines}", "View: Baselines"),
    "job": View("/jobs/{lenet5 on two}", "Advice"),
    "job-charts": View("/jobs/{lenet5 on two}?charts=learning,slots", "Advice", "dark-wide", 1060, "Loss"),
    "job-own-charts": View(
        "/jobs/{lenet5 on two}?chart=|Gap|val_loss - loss&chart=y||*loss&chart=x|Rate|log10(learning_rate)&chart=none",
        "Not in this job",
    ),
    "job-live": View("/jobs/{long run}", "running"),
    "job-restarted": View("/jobs/{mlp on two - restarted}", "succeeded"),
    "job-failed": View("/jobs/{line camera 3}", "bad data"),
    "job-logs": View("/jobs/{lenet5 on two}?tab=logs", "epoch"),
    "job-spec": View("/jobs/{lenet5 on two}?tab=spec", "learning rate"),
    "job-artifacts": View("/jobs/{lenet5 on two}?tab=artifacts", "model.keras", refusal="409"),
    "job-events": View("/jobs/{lenet5 on two}?tab=events", "submitted"),
    "job-notes": View("/jobs/{lenet5 on two}?tab=notes", "Write notes"),
    "job-media": View("/jobs/{what it saw}?tab=media", "val/samples"),
    "job-probe": View("/jobs/{which batch}", "succeeded"),
    "compare": View("/compare?jobs={mlp b32},{mlp b128},{mlp sgd},{mlp dropout}", "Runs side by side", "light-wide"),
    "compare-groups": View("/compare?study={digits scaling}&group=cell", "Runs side by side"),
    "compare-list": View("/compare?q=mlp&use=1", "Runs side by side"),
    "studies": View("/studies", "digits scaling"),
    "study": View("/studies/{digits scaling}", "digits scaling", "light-wide"),
    "study-new": View("/studies/new?study={digits scaling}", " cells"),
    "articles": View("/articles", "Which batch size?"),
    "article": View("/articles/{Which batch size?}", "mlp b128"),
    "article-edit": View("/articles/{Which batch size?}?edit=1", "mlp b128"),
    "article-new": View("/articles/new", "Text, in Markdown"),
    "queue": View("/queue", "next night"),
    "hosts": View("/hosts", "long run"),
    "datasets": View("/datasets", "fashion-mnist"),
    "dataset": View("/datasets/chips", "cracked"),
    "projects": View("/projects", "night"),
    "project": View("/projects/vision", "Members"),
    "usage": View("/usage", "Total"),
    "usage-by-day": View("/usage?period=day&by=user&and=device", "Total"),
    "webhooks": View("/webhooks", "New webhook"),
    "webhook": View("/webhooks/{https://ci.example.com/hooks/hora}", "ping"),
    "tokens": View("/tokens", "New token"),
    "users": View("/users", "grace"),
    "audit": View("/audit", "job.submitted"),
    "new": View(f"/new?spec={_SPEC}", "Global batch"),
    "no-such-page": View("/nothing/here", "Page not found"),
    "no-such-job": View("/jobs/3k9v0t2m7x1q", "There is no job", refusal="404"),
    "sign-in": View("/", "Token", is_signed_in=False, refusal="401"),
}


def ids_by_name(service: Service) -> dict[str, str]:
    """The ids for `path_of`; of several jobs of a name the newest."""
    ids: dict[str, str] = {}
    for listed, name in (
        (service.jobs(), "name"),
        (service.studies(), "name"),
        (service.articles(), "title"),
        (service.views(), "name"),
        (service.webhooks(), "url"),
    ):
        for item in listed:
            ids.setdefault(item[name], item["id"])
    return ids


def path_of(view: View, ids: Mapping[str, str]) -> str:
    """The address of the page, with ids in place of names."""
    path = view.path
    for name, known_id in ids.items():
        path = path.replace(f"{{{name}}}", known_id)
    return path
