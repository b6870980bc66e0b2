"""The people and objects of the table of rights, made once, and the askers that try every case on them.

Each request runs in a transaction of its own that is rolled back. So every case meets the same objects.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import FastAPI
from sqlalchemy import Connection, Engine, func, or_, text, update
from sqlalchemy.orm import Session, sessionmaker

from api.access.login_sessions import csrf_token
from api.deps import Services, idempotency_of
from hora.service.sending_runs import packed_run
from jobs.db.engine import Sessions
from jobs.db.tables import (
    DatasetSample,
    DatasetVersion,
    Host,
    Job,
    Project,
    ProjectMember,
    SavedView,
    Slot,
    Token,
    Upload,
    User,
    Webhook,
    WebhookDelivery,
)
from jobs.insight.articles import store as articles
from jobs.insight.studies.grid import cells_of
from jobs.insight.studies.store import write_study
from jobs.lifecycle.submission import write_job
from jobs.model.plan import resolve_plan
from jobs.model.scopes import Scope
from jobs.model.spec import spec_from
from jobs.model.states import EndReason, Status
from jobs.people.tokens import add_user, store_token
from jobs.runtime.settings import Settings
from jobs.views.studies import StudySpec
from tests.code import archive_of, store_code
from tests.integration.api.rights.asking import HOST
from tests.integration.api.rights.table import IN_VISION, SCRIPT
from tests.integration.api.starting_rows import SPEC
from tests.runs import run_folder

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
SENT = {"sent.py": ""}  # code that no job runs
PEOPLE = ("alice", "bob", "ella", "dora", "fred", "gus")


@dataclass(frozen=True)
class Asker:
    """Who sends a request: a person with a token of a scope, or somebody whose token is not valid (no scope)."""

    name: str
    person: str = ""
    scope: Scope | None = None
    headers: dict[str, str] = field(default_factory=dict)
    is_session: bool = False
    has_csrf: bool = True

    @property
    def token(self) -> str:
        """The text of its token."""
        return "hora_session" if self.is_session else self.headers["Authorization"].partition(" ")[2]


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _session(*, with_csrf: bool) -> dict[str, str]:
    cookies = {"Cookie": "hora_session=hora_session"}
    return cookies | ({"X-CSRF-Token": csrf_token("hora_session"), "Origin": f"http://{HOST}"} if with_csrf else {})


def _with_token(person: str, scope: Scope) -> Asker:
    return Asker(f"{person}.{scope}", person, scope, _bearer(f"hora_{person}-{scope}"))


ASKERS = (
    Asker("nobody"),
    *(
        Asker(kind, headers=_bearer(f"hora_{kind}"))
        for kind in ("unknown", "revoked", "expired", "disabled", "link", "session")
    ),
    Asker("alice in a session", "alice", Scope.SUBMIT, _session(with_csrf=True), is_session=True),
    Asker(
        "alice in a session of another page", "alice", Scope.SUBMIT, _session(with_csrf=False),
        is_session=True, has_csrf=False,
    ),
    *(_with_token(person, scope) for person in ("alice", "bob", "dora") for scope in Scope),
    *(_with_token("ella", scope) for scope in (Scope.READ, Scope.SUBMIT)),
    # The former member with the scope admin: not ella herself, or she would be one who may have what she left.
    _with_token("erin", Scope.ADMIN),
)  # fmt: skip


class World(NamedTuple):
    """A running app with the objects, by the names that the table uses."""

    app: FastAPI
    engine: Engine
    settings: Settings
    ids: dict[str, str]

    @contextmanager
    def undone(self) -> Iterator[Connection]:
        """Let the app work in one transaction, and roll it back."""
        services: Services = self.app.state.services
        files = {Path(entry.path): Path(entry.path).read_bytes() for entry in self._entries()}
        with self.engine.connect() as connection:
            sessions = sessionmaker(connection, join_transaction_mode="create_savepoint", expire_on_commit=False)
            transaction = connection.begin()  # the sessions' own ones are savepoints in it
            self.app.state.services = replace(services, sessions=sessions)
            try:
                yield connection
            finally:
                self.app.state.services = services
                if _has_written(connection):
                    connection.execute(text("SELECT pg_stat_force_next_flush()"))  # or the next one would count it
                transaction.rollback()
                for path, content in files.items():
                    if not path.exists():
                        path.write_bytes(content)

    def files(self) -> list[tuple[str, int]]:
        """The files of uploads, with their sizes."""
        return sorted((entry.name, entry.stat().st_size) for entry in self._entries())

    def _entries(self) -> list[os.DirEntry[str]]:
        folder = self.settings.datasets / ".uploads"
        return list(os.scandir(folder)) if folder.is_dir() else []


def rows_written(connection: Connection) -> int:
    """How many rows this transaction wrote so far."""
    return int(connection.scalar(_WRITTEN) or 0) if _has_written(connection) else 0


def _has_written(connection: Connection) -> bool:
    """Whether this transaction wrote or locked rows."""
    return connection.scalar(text("SELECT pg_current_xact_id_if_assigned()::text")) is not None


_WRITTEN = text("SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_xact_user_tables")


def make(sessions: Sessions, settings: Settings) -> dict[str, str]:
    """Make everything. Returns the ids of objects, and the values for other names, by name."""
    for name in ("chips", "stones"):
        (Path(settings.data_roots) / name).mkdir(parents=True)
    digests = {"used_code": store_code(sessions), "sent_code": store_code(sessions, SENT, owner="dora")}
    with sessions.begin() as session:
        _make_people(session)
        _make_hosts(session)
        ids = digests | _make_scripts(session, digests["used_code"]) | _make_code_uploads(session, settings)
        for make_some in (_make_jobs, _make_studies, _make_webhooks, _make_views, _make_articles, _make_data):
            ids |= make_some(session)
        ids |= _make_tokens(session) | _make_run_uploads(session, settings)
    artifacts = settings.runs_dir / ids["ended_job"] / "artifacts"
    artifacts.mkdir(parents=True)
    (artifacts / "model.weights.h5").write_bytes(b"weights")
    return ids


def _make_people(session: Session) -> None:
    for person in (*PEOPLE, "erin"):
        add_user(session, person)
    session.add(Project(name="vision", is_open=False))
    session.flush()
    session.add_all(ProjectMember(project="vision", user_name=member) for member in ("alice", "bob"))
    for asker in ASKERS:
        if asker.scope is not None and not asker.is_session:
            store_token(session, f"hora_{asker.person}-{asker.scope}", user=asker.person, scope=asker.scope)
    store_token(session, "hora_gus-read", user="gus", scope=Scope.READ)
    for kind in ("revoked", "expired"):
        store_token(session, f"hora_{kind}", user="alice", scope=Scope.ADMIN, name=kind)
    store_token(session, "hora_disabled", user="fred", scope=Scope.ADMIN)
    store_token(session, "hora_link", user="alice", scope=Scope.SUBMIT, kind="login")
    store_token(session, "hora_session", user="alice", scope=Scope.SUBMIT, kind="session")
    session.execute(update(Token).where(Token.name == "revoked").values(revoked_at=func.now()))
    session.execute(update(Token).where(Token.name == "expired").values(expires_at=LONG_AGO))
    session.execute(update(User).where(User.name == "fred").values(disabled_at=func.now()))


def _make_hosts(session: Session) -> None:
    session.add(Host(name="ha", info={"cores": 4}))
    session.add(Host(name="drained", info={}, drained_at=func.now()))
    session.add(Host(name="lost", info={}, heartbeat_at=LONG_AGO))
    session.flush()
    session.add_all(Slot(host="ha", index=index, kind="cpu", name=f"cpu {index}") for index in range(4))


def _make_jobs(session: Session) -> dict[str, str]:
    def submit(owner: str, document: dict[str, Any], *, key: str = "", **values: Any) -> str:
        spec, idempotency = spec_from(document), idempotency_of(key, "submit", json.dumps(document))
        plan = resolve_plan(spec, None)
        job_id = write_job(session, spec=spec, plan=plan, owner=owner, idempotency=idempotency).id
        session.execute(update(Job).where(Job.id == job_id).values(values or {"name": "queued"}))
        return job_id

    paused = {"paused_at": func.now()}
    ended = {"status": Status.SUCCEEDED, "end_reason": EndReason.COMPLETED, "ended_at": func.now()}
    return {
        "queued_job": submit("alice", IN_VISION),
        "paused_job": submit("alice", IN_VISION, **paused),
        "open_job": submit("alice", SPEC, **paused),
        "left_job": submit("ella", IN_VISION, key="of-ella", **paused),
        "shut_job": submit("fred", SPEC, **paused),
        "ended_job": submit("alice", IN_VISION, **ended),
        "ended_left_job": submit("ella", IN_VISION, **ended),
        "ended_shut_job": submit("fred", SPEC, **ended),
    }


def _submit_study(session: Session, owner: str, document: dict[str, Any]) -> str:
    study = StudySpec.model_validate({"name": "grid", "base": document, "grid": {"seed": [1, 2]}})
    return write_study(session, study, [(cell, resolve_plan(cell.spec, None)) for cell in cells_of(study)], owner=owner)


def _make_studies(session: Session) -> dict[str, str]:
    owners = {"open": ("alice", SPEC), "left": ("ella", IN_VISION), "shut": ("fred", SPEC)}
    studies = {"paused_study": ("alice", IN_VISION, 1), "ended_study": ("alice", IN_VISION, 2)}
    studies |= {f"{name}_study": (*owner, 1) for name, owner in owners.items()}
    studies |= {f"ended_{name}_study": (*owners[name], 2) for name in ("left", "shut")}
    failed = {"status": Status.FAILED, "end_reason": EndReason.BAD_DATA, "ended_at": func.now()}
    ids = {}
    for name, (owner, document, ended_jobs) in studies.items():
        ids[name] = study_id = _submit_study(session, owner, document)
        session.execute(update(Job).where(Job.study_id == study_id, Job.study_cell < ended_jobs).values(failed))
    return ids


def _make_scripts(session: Session, digest: str) -> dict[str, str]:
    script = SCRIPT | {"code": digest}
    spec = spec_from(script)
    job = write_job(session, spec=spec, plan=resolve_plan(spec, None), owner="alice")
    study_id = _submit_study(session, "alice", script)
    session.execute(update(Job).where(or_(Job.id == job.id, Job.study_id == study_id)).values(paused_at=func.now()))
    return {"paused_script": job.id, "paused_scripts": study_id}


def _make_code_uploads(session: Session, settings: Settings) -> dict[str, str]:
    (settings.datasets / ".uploads").mkdir(parents=True)
    for owner, files in (("alice", {"new.py": ""}), ("dora", SENT)):
        _make_upload(session, settings, f"codeof{owner}", owner, archive_of(files), "c.tar.gz")
    return {"code_upload": "codeofalice", "code_of_dora": "codeofdora"}


def _make_run_uploads(session: Session, settings: Settings) -> dict[str, str]:
    """Runs that were uploaded: of alice into the closed project, and of dora into the open one."""
    names = {"run_upload": ("alice", "vision"), "run_of_dora": ("dora", "default"), "run_to_vision": ("dora", "vision")}
    for name, (owner, project) in names.items():
        with packed_run(run_folder(settings.home / name), project=project) as run:
            content = run.read(0, run.size_bytes)
        _make_upload(session, settings, name.replace("_", ""), owner, content, "run.jsonl")
    return {name: name.replace("_", "") for name in names}


def _make_upload(session: Session, settings: Settings, upload_id: str, owner: str, content: bytes, name: str) -> None:
    """A complete upload with its file."""
    (settings.datasets / ".uploads" / upload_id).write_bytes(content)
    size = {"size_bytes": len(content), "received_bytes": len(content)}
    session.add(Upload(id=upload_id, owner=owner, filename=name, completed_at=func.now(), **size))


def _make_webhooks(session: Session) -> dict[str, str]:
    owners = {"hook": ("alice", "vision"), "own_hook": ("alice", None), "left_hook": ("ella", "vision")}
    ids = {}
    what = {"url": "https://ci.example.com/", "events": ["job.ended"], "secret": "s"}
    for number, (name, (owner, project)) in enumerate({**owners, "weak_hook": ("gus", None)}.items()):
        ids[name] = f"hook{number}"
        session.add(Webhook(id=ids[name], owner=owner, project=project, **what))
    session.flush()
    for name in ("hook", "left_hook"):
        delivery = WebhookDelivery(webhook_id=ids[name], event="ping", subject_id=ids[name], next_at=None)
        session.add(delivery)
        session.flush()
        ids[name.replace("hook", "delivery")] = str(delivery.id)
    return ids


def _make_views(session: Session) -> dict[str, str]:
    owners = {"view": ("alice", "vision"), "left_view": ("ella", "vision"), "own_view": ("alice", None)}
    ids = {name: f"view{number}" for number, name in enumerate([*owners, "shut_view"])}
    for name, (owner, project) in {**owners, "shut_view": ("fred", None)}.items():
        session.add(SavedView(id=ids[name], owner=owner, project=project, name=name, content={}))
    return ids


def _make_articles(session: Session) -> dict[str, str]:
    owners = {"article": ("alice", "vision"), "open_article": ("alice", "default"), "left_article": ("ella", "vision")}
    return {
        name: articles.create(session, owner=owner, project=project, title=name, text="").id
        for name, (owner, project) in owners.items()
    }


def _make_data(session: Session) -> dict[str, str]:
    chips = DatasetVersion(name="chips", version=1, source="chips", created_by="alice", options={}, description="")
    session.add(chips)
    session.flush()
    session.add(DatasetSample(version_id=chips.id, number=0, label="cat", png=b"png"))
    session.add(Upload(id="upload", owner="alice", filename="a.zip", size_bytes=100))
    complete = {"size_bytes": 9, "received_bytes": 9, "completed_at": func.now()}
    session.add(Upload(id="complete", owner="alice", filename="b.zip", **complete))
    return {"upload": "upload", "complete_upload": "complete"}


def _make_tokens(session: Session) -> dict[str, str]:
    ids = {
        f"{scope}_token": store_token(session, f"hora_of-alice-{scope}", user="alice", scope=scope) for scope in Scope
    }
    return ids | {"token_of_dora": store_token(session, "hora_of-dora", user="dora", scope=Scope.READ)}
