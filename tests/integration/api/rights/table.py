"""Who may do what: a row for each route of the API, with a case for each kind of object that makes a difference.

The people (`world` makes them and their objects):

    alice   a member of the closed project `vision`, and the owner of most objects
    bob     another member
    ella    a former member: her own jobs, studies and webhooks in `vision` are named `left_...`
    dora    a stranger
    fred    a disabled user: his objects are named `shut_...`
    gus     has only a token that reads: his webhook is `weak_hook`

Each asks with a token of each scope. `may` names those who may with the scope of the row; admins may always. Others get
`refused`. Where not even those who may control the object may do this with it, the case is `blocked`: they get 403.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from jobs.model.scopes import Scope
from tests.integration.api.starting_rows import SPEC

EVERYBODY = "alice bob ella dora"
FORBIDDEN = "403 forbidden"
UNSEEN = "404 webhook-not-found"
SAFE = {"GET", "HEAD"}
OCTETS = {"Content-Type": "application/octet-stream"}
STREAM = {"Accept": "text/event-stream"}
URL = "https://ci.example.com/hook"


@dataclass(frozen=True)
class Shown:
    """An object that an answer shows only to some: to `may`, with this scope."""

    name: str
    may: str
    needs: Scope = Scope.READ
    admins: bool = True


@dataclass(frozen=True)
class Case:
    """A request to a route, and who may send it. `objects` are the values of the path's parameters, by their names."""

    objects: str = ""
    may: str = EVERYBODY
    ok: int = 200  # the status of an allowed call
    needs: Scope | None = None  # if it is more than the row's
    refused: str = FORBIDDEN
    blocked: bool = False
    query: str = ""
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    sessions: bool = True  # whether a session may, as its token may
    writes: bool = True  # whether an allowed call with a method that changes things always changes something
    shows: tuple[Shown, ...] = ()
    audited: str = ""  # what the audit log has of it, if it is not what `AUDITED` says


@dataclass(frozen=True)
class Row:
    """A route (method and path), the scope that it needs (None: no token), and its cases."""

    route: str
    needs: Scope | None
    cases: tuple[Case, ...]
    why: str = ""  # why it is public

    def audited(self, case: Case) -> str:
        """What an allowed call leaves in the audit log."""
        return case.audited or AUDITED.get(self.route, "")

    @property
    def method(self) -> str:
        """The method."""
        return self.route.partition(" ")[0]

    def address(self, case: Case) -> str:
        """The path with the names of the case's objects in braces, and its query."""
        names = iter(case.objects.split())
        path = re.sub(r"\{[^}]*\}", lambda _: f"{{{next(names)}}}", self.route.partition(" ")[2])
        return path + case.query


def public(route: str, why: str, *cases: Case) -> Row:
    """A route that needs no token."""
    return Row(route, None, cases or (Case(writes=False),), why)


def row(route: str, needs: Scope, *cases: Case) -> Row:
    """A route that needs a token."""
    return Row(route, needs, cases or (Case(),))


# Who may control the objects of each kind: the members of their project, and their owners. Of the hooks each owner sees
# their own.
OF_JOBS = {"paused": "alice bob", "open": "alice", "left": "alice bob ella", "shut": ""}
CONTROL = {
    **{kind: {f"{name}_{kind}": may for name, may in OF_JOBS.items()} for kind in ("job", "study")},
    "article": {"article": "alice bob", "open_article": "alice", "left_article": "alice bob ella"},
    "hook": {"hook": "alice", "own_hook": "alice", "left_hook": "ella", "weak_hook": ""},
    "view": {"view": "alice bob", "left_view": "alice bob", "own_view": "alice", "shut_view": ""},
}
# With these, no message is sent and no job resumed: it takes an owner who may do so now.
POWERLESS = ("left", "shut", "weak")


def of_each(kind: str, ok: int, *, needs_owner: bool = False, **values: Any) -> tuple[Case, ...]:
    """The objects of a kind, of all kinds of owners."""
    values = {"refused": UNSEEN if kind == "hook" else FORBIDDEN} | values
    return tuple(
        Case(name, may, ok, blocked=needs_owner and name.startswith(POWERLESS), **values)
        for name, may in CONTROL[kind].items()
    )


def read_of(kind: str, ok: int = 200, **values: Any) -> tuple[Case, ...]:
    """Jobs or studies of all kinds of owners, which everybody may read."""
    return tuple(Case(f"{name}_{kind}", ok=ok, **values) for name in ("paused", "left", "shut"))


def deleted(kind: str) -> tuple[Case, ...]:
    """The jobs or studies (`kind`) of all kinds of owners, or what they left: only if they have ended."""
    return (
        *of_each(kind, 409),
        Case(f"ended_{kind}", "alice bob", 204),
        Case(f"ended_left_{kind}", "alice bob ella", 204),
        Case(f"ended_shut_{kind}", "", 204),
    )


IN_VISION = SPEC | {"project": "vision"}
GRID = {"grid": {"seed": [1, 2]}}
READ, SUBMIT, CODE, ADMIN = Scope.READ, Scope.SUBMIT, Scope.CODE, Scope.ADMIN
SCRIPT = {"command": ["python", "train.py"]}
TOKENS = (
    Case("read_token", "alice"),
    Case("submit_token", "alice", needs=SUBMIT),
    Case("code_token", "alice", needs=CODE),
    Case("admin_token", "", needs=ADMIN),
    Case("token_of_dora", "dora"),
)
VERBS = {"cancel": "led", "pause": "d", "resume": "d"}
MADE = ("view", "webhook", "article")
READ_BY_ALL = (
    "jobs", "jobs/count", "studies", "hosts", "models", "me", "queue", "projects", "usage", "articles", "datasets",
)  # fmt: skip
READ_OF_JOB = ("", "/analysis", "/advice", "/metrics", "/utilization", "/logs", "/attempts", "/media")

ROWS = (
    # Without a token
    public("GET /healthz", "a load balancer has no token"),
    public("GET /readyz", "a load balancer has no token"),
    public("GET /metrics", "Prometheus: counts and names of hosts, no content of jobs"),
    public("GET /openapi.json", "it describes the service, not what is in it"),
    public("GET /docs", "the same as a page"),
    public("GET /docs/{name}", "the scripts and styles of that page", Case("start.js"), Case("swagger-ui-bundle.js")),
    public("GET /redoc", "it leads to that page", Case(ok=307)),
    public("GET /help", "this documentation", Case(ok=307)),
    public("GET /help/", "this documentation", Case(ok=307)),
    public("GET /help/{path:path}", "this documentation", Case("README.html")),
    public("GET /login", "who has the code of a link gets the session", Case(query="?code=hora_link", ok=303)),
    row("POST /logout", READ, Case(ok=204, writes=False)),
    *(row(f"GET /v1/{path}", READ) for path in READ_BY_ALL),
    # Jobs
    row("GET /v1/jobs/groups", READ, Case(query="?by=owner")),
    *(row(f"GET /v1/jobs/{{job_id}}{part}", READ, *read_of("job")) for part in READ_OF_JOB),
    row("GET /v1/jobs/{job_id}/events", READ, *read_of("job"), *read_of("job", headers=STREAM)),
    row("GET /v1/events", READ, Case(headers=STREAM)),
    row("GET /v1/metrics", READ, Case(query="?job={queued_job}&job={left_job}&name=loss")),
    row("GET /v1/jobs/{job_id}/artifacts", READ, *read_of("job")),
    row("DELETE /v1/jobs/{job_id}/artifacts", SUBMIT, *deleted("job")),
    row("DELETE /v1/jobs/{job_id}", SUBMIT, *deleted("job")),
    row("GET /v1/jobs/{job_id}/artifacts.tar", READ, Case("ended_job", query="?path=model.weights.h5")),
    row("GET /v1/jobs/{job_id}/artifacts/{path:path}", READ, Case("ended_job model.weights.h5")),
    row("HEAD /v1/jobs/{job_id}/artifacts/{path:path}", READ, Case("ended_job model.weights.h5")),
    row("GET /v1/jobs/{job_id}/checkpoints", READ, *read_of("job", 409)),  # these stacks have no store
    row("GET /v1/jobs/{job_id}/checkpoints/{attempt}/{step}/{path:path}", READ, Case("ended_job 1 8 x.npz", ok=409)),
    row("HEAD /v1/jobs/{job_id}/checkpoints/{attempt}/{step}/{path:path}", READ, Case("ended_job 1 8 x.npz", ok=409)),
    row(
        "POST /v1/jobs", SUBMIT,
        Case(ok=201, body=SPEC),
        Case(ok=201, body=IN_VISION, may="alice bob"),
        Case(query="?dry_run=true", body=SPEC, writes=False),
        Case(query="?dry_run=true", body=IN_VISION, may="alice bob", writes=False),
        Case(ok=201, body=SPEC | {"model": {"name": "lenet5", "weights": "job:{ended_job}"}}),
        Case(ok=201, body=SCRIPT | {"code": "{used_code}"}, needs=CODE),
        Case(query="?dry_run=true", body=SCRIPT | {"code": "{used_code}"}, needs=CODE, writes=False),
        # A repeat gives the first answer again: it only reads what everybody may read.
        Case(ok=201, body=IN_VISION, may="alice bob ella", headers={"Idempotency-Key": "of-ella"}, writes=False),
    ),
    row(
        "POST /v1/imports", SUBMIT,
        Case(body={"upload": "{run_upload}"}, may="alice", ok=201),
        Case(body={"upload": "{run_of_dora}"}, may="dora", ok=201),
        Case(body={"upload": "{run_to_vision}"}, may="", ok=201),
    ),
    row(
        "POST /v1/jobs/{job_id}/clone", SUBMIT,
        Case("queued_job", "alice bob", 201),
        Case("left_job", "alice bob", 201),
        Case("shut_job", ok=201),
        Case("left_job", ok=201, body={"project": "default"}),
        Case("paused_script", ok=201, needs=CODE),
    ),
    row(
        "PATCH /v1/jobs/{job_id}", SUBMIT,
        *of_each("job", 200, body={"priority": 10, "labels": {"team": "a"}}),
        Case("ended_job", "alice bob", 200, body={"name": "kept"}),
        Case("ended_job", "alice bob", 409, body={"priority": 10}),
        Case("ended_job", "alice bob", 200, body={"archived": True}),
        Case("queued_job", "alice bob", 409, body={"archived": True}),
        Case("ended_job", "alice bob", 200, body={"project": "default"}),
    ),
    row("POST /v1/jobs/{job_id}/cancel", SUBMIT, *of_each("job", 202), Case("ended_job", "alice bob", 409)),
    row(
        "POST /v1/jobs/{job_id}/pause", SUBMIT,
        *of_each("job", 202, writes=False), Case("queued_job", "alice bob", 202),
    ),
    row(
        "POST /v1/jobs/{job_id}/resume", SUBMIT,
        *of_each("job", 202, needs_owner=True),
        Case("ended_job", "alice bob", 409), Case("paused_script", "alice", 202, needs=CODE),
    ),
    # Studies
    *(row(f"GET /v1/studies/{{study_id}}{part}", READ, *read_of("study")) for part in ("", "/curves", "/report")),
    row(
        "POST /v1/studies", SUBMIT,
        Case(ok=201, body=GRID | {"base": SPEC}),
        Case(ok=201, body=GRID | {"base": IN_VISION}, may="alice bob"),
        Case(query="?dry_run=true", body=GRID | {"base": IN_VISION}, may="alice bob", writes=False),
        Case(ok=201, body=GRID | {"base": SCRIPT | {"code": "{used_code}"}}, needs=CODE),
    ),
    row(
        "PATCH /v1/studies/{study_id}", SUBMIT,
        *of_each("study", 409, body={"project": "another"}),  # they have not ended
        Case("ended_study", "alice bob", 200, body={"project": "default"}),
        Case("ended_left_study", "alice bob ella", 200, body={"project": "default"}),
        Case("ended_shut_study", "", 200, body={"project": "vision"}),
    ),
    row("DELETE /v1/studies/{study_id}", SUBMIT, *deleted("study")),
    row("POST /v1/studies/{study_id}/cancel", SUBMIT, *of_each("study", 202)),
    row("POST /v1/studies/{study_id}/pause", SUBMIT, *of_each("study", 202)),
    row(
        "POST /v1/studies/{study_id}/resume", SUBMIT,
        *of_each("study", 202, needs_owner=True), Case("paused_scripts", "alice", 202, needs=CODE),
    ),
    row("POST /v1/studies/{study_id}/notes", SUBMIT, *of_each("study", 201, body={"text": "so far"})),
    # Code
    row(
        "POST /v1/code", CODE,
        Case(body={"upload": "{code_upload}"}, may="alice", ok=201),
        Case(body={"upload": "{code_of_dora}"}, may="dora", ok=200),
    ),
    *(
        row(
            f"GET /v1/code/{{digest}}{part}", READ,
            Case("used_code"), Case("sent_code", may="dora", refused="404 code-not-found"),
        )
        for part in ("", "/archive")
    ),
    row(
        "GET /v1/code/{digest}/files/{path:path}", READ,
        Case("used_code train.py"), Case("sent_code sent.py", may="dora", refused="404 code-not-found"),
    ),
    row(
        "GET /v1/code/{digest}/diff/{other}", READ,
        Case("used_code used_code"),
        Case("used_code sent_code", may="dora", refused="404 code-not-found"),
        Case("sent_code used_code", may="dora", refused="404 code-not-found"),
    ),
    # Hosts and what a spec can name
    row("GET /v1/hosts/{name}", READ, Case("ha")),
    row("GET /v1/hosts/{name}/utilization", READ, Case("ha")),
    row("POST /v1/hosts/{name}/drain", ADMIN, Case("ha")),
    row("POST /v1/hosts/{name}/undrain", ADMIN, Case("drained")),
    row("DELETE /v1/hosts/{name}", ADMIN, Case("lost", ok=204)),
    # People
    row(
        "POST /v1/tokens", READ,
        Case(ok=201, body={"name": "x", "scope": "read"}),
        Case(ok=201, body={"name": "x", "scope": "submit"}, needs=SUBMIT),
        Case(ok=201, body={"name": "x", "scope": "code"}, needs=CODE),
        Case(ok=201, body={"name": "x", "scope": "admin"}, needs=ADMIN),
        Case(ok=201, body={"name": "x", "scope": "read", "user": "dora"}, may="dora"),
    ),
    row(
        "GET /v1/tokens", READ,
        Case(shows=(
            Shown("read_token", "alice", admins=False), Shown("submit_token", "alice", SUBMIT, admins=False),
            Shown("code_token", "alice", CODE, admins=False),
            Shown("admin_token", "alice", ADMIN, admins=False), Shown("token_of_dora", "dora", admins=False),
        )),
        Case(query="?user=alice", may="alice", shows=(
            Shown("read_token", "alice"), Shown("submit_token", "alice", SUBMIT),
            Shown("code_token", "alice", CODE), Shown("admin_token", "alice", ADMIN),
        )),
    ),
    row("GET /v1/tokens/{token_id}", READ, *TOKENS),
    row("DELETE /v1/tokens/{token_id}", READ, *(Case(one.objects, one.may, 204, one.needs) for one in TOKENS)),
    row("POST /v1/login-links", READ, Case(ok=201, sessions=False)),
    row("GET /v1/users", ADMIN),
    row(
        "PATCH /v1/users/{user_name}", ADMIN,
        Case("dora", body={"disabled": True}), Case("fred", body={"disabled": False}, audited="user.enabled"),
    ),
    row("GET /v1/audit", ADMIN),
    # Projects
    row("GET /v1/projects/{project}", READ, Case("vision"), Case("default")),
    row("POST /v1/projects", ADMIN, Case(ok=201, body={"name": "new"})),
    row("PATCH /v1/projects/{project}", ADMIN, Case("vision", body={"is_open": True})),
    row("PUT /v1/projects/{project}/members/{user_name}", ADMIN, Case("vision ella")),
    row("DELETE /v1/projects/{project}/members/{user_name}", ADMIN, Case("vision bob", ok=204)),
    # Saved views
    row(
        "GET /v1/views", READ,
        Case(shows=(Shown("own_view", "alice", admins=False), Shown("view", EVERYBODY))),
        Case(query="?project=vision", shows=(Shown("view", EVERYBODY), Shown("left_view", EVERYBODY))),
    ),
    row("GET /v1/views/{view_id}", READ, Case("view"), Case("own_view"), Case("left_view"), Case("shut_view")),
    row(
        "POST /v1/views", SUBMIT,
        Case(ok=201, body={"name": "new"}),
        Case(ok=201, body={"name": "new", "project": "vision"}, may="alice bob"),
        Case(ok=201, body={"name": "new", "project": "default"}, may=""),
    ),
    row("PATCH /v1/views/{view_id}", SUBMIT, *of_each("view", 200, body={"name": "newer"})),
    row("DELETE /v1/views/{view_id}", SUBMIT, *of_each("view", 204)),
    # Webhooks
    row(
        "GET /v1/webhooks", READ,
        Case(shows=(Shown("hook", "alice"), Shown("own_hook", "alice"), Shown("left_hook", "ella"))),
        Case(query="?owner=alice", may="alice", shows=(Shown("hook", "alice"),)),
    ),
    row(
        "POST /v1/webhooks", SUBMIT,
        Case(ok=201, body={"url": URL}),
        Case(ok=201, body={"url": URL, "project": "vision"}, may="alice bob"),
    ),
    row("GET /v1/webhooks/{webhook_id}", READ, *of_each("hook", 200)),
    row("GET /v1/webhooks/{webhook_id}/deliveries", READ, *of_each("hook", 200)),
    row(
        "PATCH /v1/webhooks/{webhook_id}", SUBMIT,
        *of_each("hook", 200, body={"disabled": True}),
        *of_each("hook", 200, needs_owner=True, body={"disabled": False}, writes=False),
    ),
    row("DELETE /v1/webhooks/{webhook_id}", SUBMIT, *of_each("hook", 204)),
    row("POST /v1/webhooks/{webhook_id}/test", SUBMIT, *of_each("hook", 202, needs_owner=True)),
    row(
        "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", SUBMIT,
        Case("hook delivery", "alice", 202, refused=UNSEEN),
        Case("left_hook left_delivery", "ella", refused=UNSEEN, blocked=True),
    ),
    # Articles
    row(
        "POST /v1/articles", SUBMIT,
        Case(ok=201, body={"title": "new"}),
        Case(ok=201, body={"title": "new", "project": "vision"}, may="alice bob"),
    ),
    row("GET /v1/articles/{article_id}", READ, Case("article"), Case("left_article")),
    row("GET /v1/articles/{article_id}/versions", READ, Case("article"), Case("left_article")),
    row("GET /v1/articles/{article_id}/export", READ, Case("article", query="?format=markdown")),
    row("PATCH /v1/articles/{article_id}", SUBMIT, *of_each("article", 200, body={"version": 1, "text": "new"})),
    row("DELETE /v1/articles/{article_id}", SUBMIT, *of_each("article", 204)),
    # Data
    row("GET /v1/datasets/{dataset}", READ, Case("chips"), Case("digits")),
    row("GET /v1/datasets/{dataset}/versions/{version}", READ, Case("chips 1")),
    row("GET /v1/datasets/{dataset}/versions/{version}/samples", READ, Case("chips 1")),
    row("GET /v1/datasets/{dataset}/versions/{version}/samples/{number}", READ, Case("chips 1 0")),
    row("DELETE /v1/datasets/{dataset}/versions/{version}", SUBMIT, Case("chips 1", "alice", 204)),
    row(
        "POST /v1/datasets", SUBMIT,
        Case(ok=201, body={"name": "stones", "source": "stones"}),
        Case(ok=201, body={"name": "stones", "upload": "{complete_upload}"}, may="alice"),
    ),
    row(
        "POST /v1/uploads", SUBMIT,
        Case(ok=201, body={"filename": "a.zip", "size_bytes": 9}),
        Case(ok=201, body={"filename": "a.zip", "size_bytes": 9, "purpose": "code"}, needs=CODE),
    ),
    row("GET /v1/uploads", READ, Case(shows=(Shown("upload", "alice", admins=False),))),
    row("GET /v1/uploads/{upload_id}", READ, Case("upload", "alice")),
    row(
        "PUT /v1/uploads/{upload_id}/content", SUBMIT,
        Case("upload", "alice", query="?offset=0", body=b"some bytes", headers=OCTETS),
    ),
    row("DELETE /v1/uploads/{upload_id}", SUBMIT, Case("upload", "alice", 204)),
)  # fmt: skip


# What an allowed call that writes leaves in the audit log: the action, and the subject, if that is neither the id of
# what was made nor the first object.
AUDITED = {
    "POST /v1/jobs": "job.submitted", "POST /v1/imports": "job.imported", "POST /v1/jobs/{job_id}/clone": "job.cloned",
    "PATCH /v1/jobs/{job_id}": "job.changed", "DELETE /v1/jobs/{job_id}": "job.deleted",
    "DELETE /v1/jobs/{job_id}/artifacts": "job.artifacts_removed",
    **{f"POST /v1/jobs/{{job_id}}/{verb}": f"job.{verb}{end}" for verb, end in VERBS.items()},
    "POST /v1/studies": "study.submitted", "POST /v1/studies/{study_id}/notes": "study.noted {object}",
    "PATCH /v1/studies/{study_id}": "study.changed", "DELETE /v1/studies/{study_id}": "study.deleted",
    **{f"POST /v1/studies/{{study_id}}/{verb}": f"study.{verb}{end}" for verb, end in VERBS.items()},
    "POST /v1/code": "code.sent", "DELETE /v1/hosts/{name}": "host.forgotten",
    "POST /v1/hosts/{name}/drain": "host.drained", "POST /v1/hosts/{name}/undrain": "host.undrained",
    "POST /v1/tokens": "token.created", "DELETE /v1/tokens/{token_id}": "token.revoked",
    "POST /v1/login-links": "login_link.created {person}", "PATCH /v1/users/{user_name}": "user.disabled",
    "POST /v1/projects": "project.created new", "PATCH /v1/projects/{project}": "project.changed",
    "PUT /v1/projects/{project}/members/{user_name}": "project.member_added",
    "DELETE /v1/projects/{project}/members/{user_name}": "project.member_removed",
    **{f"POST /v1/{noun}s": f"{noun}.created" for noun in MADE},
    **{f"PATCH /v1/{noun}s/{{{noun}_id}}": f"{noun}.changed" for noun in MADE},
    **{f"DELETE /v1/{noun}s/{{{noun}_id}}": f"{noun}.deleted" for noun in MADE},
    "POST /v1/webhooks/{webhook_id}/test": "webhook.tested",
    "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": "webhook.redelivered",
    "POST /v1/datasets": "dataset.registered stones@1",
    "DELETE /v1/datasets/{dataset}/versions/{version}": "dataset.removed chips@1",
    "POST /v1/uploads": "upload.started", "DELETE /v1/uploads/{upload_id}": "upload.removed",
}  # fmt: skip


UNAUDITED = {
    "PUT /v1/uploads/{upload_id}/content": "one of thousands of pieces of an upload, whose start and dataset are there",
    "POST /logout": "tested with a session: tests/integration/api/test_audit.py",
}
