"""The rows of studies: submit, look up, list, and write notes. `control` cancels, pauses and resumes.

Called by the api. Every function works in the caller's transaction; the caller commits.

    StudyNotFound       no study has this id
    TooManyNotes        the study has as many notes as allowed
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, Select, exists, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import BY_TIME, Page, page_of
from jobs.db.tables import Job, Study, StudyNote
from jobs.insight.studies.best import best_of_studies
from jobs.insight.studies.grid import Cell, spec_of
from jobs.insight.studies.space import space_of, trials_of
from jobs.lifecycle.listing import JobFilter, ListQuery
from jobs.lifecycle.store import new_id
from jobs.lifecycle.submission import Idempotency, StudyPlace, earlier_answer, remember_answer, write_jobs
from jobs.model.plan import Plan
from jobs.model.spec import DEFAULT_PROJECT
from jobs.model.states import TERMINAL, Status
from jobs.views.searches import SearchSpec
from jobs.views.studies import CellJob, CellView, ListedStudy, NoteView, StudySpec, StudyView

MOST_NOTES = 200  # of a study
MOST_NOTE_CHARACTERS = 200_000  # of all notes of a study: every answer with the study has them
ALL_JOBS = JobFilter()
_LIST = "studies"  # what its cursors belong to


class StudyNotFound(LookupError):
    """No study has this id."""


class TooManyNotes(ValueError):
    """The study has as many notes as allowed, or as much text in them."""


def earlier_study(session: Session, owner: str, idempotency: Idempotency | None) -> str | None:
    """The id of the study of the first submission with this key. Raises `IdempotencyConflict`.

    Call this before `write_study` in the same transaction: others with this key wait until the commit.
    """
    earlier = earlier_answer(session, owner, idempotency)
    return None if earlier is None else earlier.study_id


def write_study(
    session: Session,
    spec: StudySpec,
    cells: Sequence[tuple[Cell, Plan]],
    *,
    owner: str,
    idempotency: Idempotency | None = None,
) -> str:
    """Write a study, its jobs and its key; returns its id. Queues the first repeat of every cell before any second."""
    study = _add_study(session, spec, owner=owner, idempotency=idempotency)
    study.cells = [cell.values for cell, _ in cells]
    session.flush()
    jobs = [
        (spec_of(cell, repeat), plan, StudyPlace(study.id, position, repeat, cell.values))
        for repeat in range(spec.repeats)
        for position, (cell, plan) in enumerate(cells)
    ]
    write_jobs(session, jobs, owner=owner)
    return study.id


def write_search(session: Session, spec: StudySpec, *, owner: str, idempotency: Idempotency | None = None) -> str:
    """Write a search and its key; returns its id. `jobs.insight.studies.searching` begins its trials."""
    assert spec.search is not None
    study = _add_study(session, spec, owner=owner, idempotency=idempotency)
    study.search, study.is_searching = spec.search.model_dump(mode="json", exclude_unset=True), True
    session.flush()
    return study.id


def _add_study(session: Session, spec: StudySpec, *, owner: str, idempotency: Idempotency | None) -> Study:
    study = Study(
        id=new_id(),
        name=spec.name,
        owner=owner,
        project=spec.base.get("project", DEFAULT_PROJECT),
        base=spec.base,
        grid=spec.grid,
        cells=[],
        repeats=spec.repeats,
        target=spec.target,
    )
    session.add(study)
    session.flush()
    if spec.note is not None:
        session.add(StudyNote(study_id=study.id, author=owner, text=spec.note))
    remember_answer(session, owner, idempotency, study_id=study.id)
    return study


def get_study(session: Session, study_id: str) -> Study:
    """The study with this id. Raises `StudyNotFound`."""
    study = session.get(Study, study_id, populate_existing=True)
    if study is None:
        raise StudyNotFound(study_id)
    return study


def list_studies(
    session: Session, *, limit: int, cursor: str | None = None, jobs: JobFilter = ALL_JOBS
) -> Page[ListedStudy]:
    """A page of the studies that have such a job, newest first. Raises `InvalidCursor`, `TooMuchToSearch`."""
    with jobs.limited(session):
        studies = session.scalars(_newest(session, select(Study), limit, cursor, jobs)).all()
    counts = _counts(session, [study.id for study in studies[:limit]])
    page = page_of(
        session, studies, by=BY_TIME, limit=limit, of=_list_of(jobs),
        position=lambda study: (study.created_at, study.id),
    )  # fmt: skip
    best = best_of_studies(session, page.items)
    lines = [ListedStudy(**_line(study, counts[study.id]), best=best.get(study.id)) for study in page.items]
    return Page(lines, page.next_cursor)


def study_ids(session: Session, *, limit: int, cursor: str | None = None, jobs: JobFilter = ALL_JOBS) -> Sequence[str]:
    """The ids of the studies on a page, and of the one after it. Raises `InvalidCursor`, `TooMuchToSearch`."""
    with jobs.limited(session):
        return session.scalars(_newest(session, select(Study.id), limit, cursor, jobs)).all()


def _newest(session: Session, query: Select[Any], limit: int, cursor: str | None, jobs: JobFilter) -> Select[Any]:
    """The query for a page of rows and one row more, newest first."""
    if cursor is not None:
        position = tuple_(*cursors.decode(session, cursor, by=BY_TIME, of=_list_of(jobs)))
        query = query.where(tuple_(Study.created_at, Study.id) < position)
    if jobs != ALL_JOBS:
        matches = [Job.study_id == Study.id, *jobs.conditions()]
        if jobs.statuses:
            matches.append(Job.status.in_(jobs.statuses))
        query = query.where(exists().where(*matches))
    return query.order_by(Study.created_at.desc(), Study.id.desc()).limit(limit + 1)


def _list_of(jobs: JobFilter) -> str:
    """What the cursors of the list belong to."""
    return _LIST if jobs == ALL_JOBS else f"{_LIST} {ListQuery(jobs).identity}"


def view_of(session: Session, study_id: str) -> StudyView:
    """A study with its cells, their jobs and its notes. Raises `StudyNotFound`."""
    study = get_study(session, study_id)
    places: dict[tuple[int, int], list[Row[Any]]] = defaultdict(list)
    for row in session.execute(_jobs_of(study_id)):
        places[row.study_cell, row.study_repeat].append(row)
    cells = [
        CellView(
            values=values,
            gpus=places[position, 0][-1].gpus,
            jobs=[_cell_job(repeat, places[position, repeat]) for repeat in range(study.repeats)],
        )
        for position, values in enumerate(study.cells)
    ]
    counts: dict[Status, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for rows in places.values():
        jobs, paused = counts[rows[-1].status]
        counts[rows[-1].status] = (jobs + 1, paused + (rows[-1].paused_at is not None))
    return StudyView(
        **_line(study, counts), base=study.base, grid=study.grid, cells=cells, notes=notes_of(session, study_id)
    )


def notes_of(session: Session, study_id: str) -> list[NoteView]:
    """The notes of a study, oldest first."""
    rows = session.scalars(select(StudyNote).where(StudyNote.study_id == study_id).order_by(StudyNote.id))
    return [NoteView(id=note.id, at=note.at, author=note.author, text=note.text) for note in rows]


def add_note(session: Session, study_id: str, *, author: str, text: str) -> NoteView:
    """Add a note to a study. Raises `StudyNotFound`, `TooManyNotes`."""
    study = lock(session, study_id)
    sizes = select(func.count(), func.coalesce(func.sum(func.length(StudyNote.text)), 0))
    notes, characters = session.execute(sizes.where(StudyNote.study_id == study_id)).one()
    if notes >= MOST_NOTES:
        raise TooManyNotes(f"the study {study_id} has {notes} notes, the most allowed")
    if characters + len(text) > MOST_NOTE_CHARACTERS:
        message = f"the notes of study {study_id} have {characters:,} of {MOST_NOTE_CHARACTERS:,} characters"
        raise TooManyNotes(f"{message}; this one has {len(text):,}")
    note = StudyNote(study_id=study.id, author=author, text=text)
    session.add(note)
    touch(session, study_id)
    session.flush()
    return NoteView(id=note.id, at=note.at, author=note.author, text=note.text)


def lock(session: Session, study_id: str) -> Study:
    """The study, locked until the commit. Raises `StudyNotFound`."""
    query = select(Study).where(Study.id == study_id).with_for_update()
    study = session.scalar(query, execution_options={"populate_existing": True})
    if study is None:
        raise StudyNotFound(study_id)
    return study


def touch(session: Session, study_id: str, **values: Any) -> None:
    """Change columns of a study."""
    session.execute(
        update(Study).where(Study.id == study_id).values(revision=Study.revision + 1, **values),
        execution_options={"synchronize_session": False},
    )


def newest_jobs(study_ids: Sequence[str]) -> Select[*tuple[Any, ...]]:
    """The newest job of each cell and repeat of these studies: its id, place, status and whether it is paused."""
    return (
        select(Job.id, Job.study_id, Job.study_cell, Job.study_repeat, Job.status, Job.paused_at)
        .where(Job.study_id.in_(study_ids))
        .ext(distinct_on(Job.study_id, Job.study_cell, Job.study_repeat))
        .order_by(Job.study_id, Job.study_cell, Job.study_repeat, Job.created_at.desc(), Job.id.desc())
    )


def search_of(study: Study) -> SearchSpec | None:
    """What a search was asked for; None for a grid."""
    return None if study.search is None else SearchSpec.model_validate(study.search)


Counts = Mapping[Status, tuple[int, int]]  # jobs, and how many of them are paused


def _counts(session: Session, study_ids: Sequence[str]) -> Mapping[str, Counts]:
    newest = newest_jobs(study_ids).subquery()
    by_study: dict[str, dict[Status, tuple[int, int]]] = {study_id: {} for study_id in study_ids}
    rows = session.execute(
        select(newest.c.study_id, newest.c.status, func.count(), func.count(newest.c.paused_at)).group_by(
            newest.c.study_id, newest.c.status
        )
    )
    for study_id, status, jobs, paused in rows:
        by_study[study_id][status] = (jobs, paused)
    return by_study


def _line(study: Study, counts: Counts) -> dict[str, Any]:
    numbers = {status: counts.get(status, (0, 0)) for status in Status}
    unfinished = {status: count for status, count in numbers.items() if status not in TERMINAL}
    search = search_of(study)
    return {
        "id": study.id,
        "name": study.name,
        "owner": study.owner,
        "project": study.project,
        "varied": list(study.grid if search is None else search.space),
        "repeats": study.repeats,
        "target": study.target,
        "jobs": len(study.cells) * study.repeats if search is None else trials_of(search, space_of(search)),
        "counts": {status: jobs for status, (jobs, _) in numbers.items()},
        "paused": sum(paused for _, paused in unfinished.values()),
        "complete": not study.is_searching and not any(jobs for jobs, _ in unfinished.values()),
        "search": search,
        "obstacle": study.obstacle,
        "cancel_requested_at": study.cancel_requested_at,
        "created_at": study.created_at,
        "revision": study.revision,
    }


def _jobs_of(study_id: str) -> Select[*tuple[Any, ...]]:
    return (
        select(Job.id, Job.study_cell, Job.study_repeat, Job.gpus, Job.status, Job.end_reason, Job.paused_at)
        .where(Job.study_id == study_id)
        .order_by(Job.study_cell, Job.study_repeat, Job.created_at, Job.id)
    )


def _cell_job(repeat: int, rows: Sequence[Row[Any]]) -> CellJob:
    newest = rows[-1]
    return CellJob(
        id=newest.id,
        repeat=repeat,
        status=newest.status,
        end_reason=newest.end_reason,
        paused=newest.paused_at is not None and newest.status not in TERMINAL,
        replaced=[row.id for row in rows[:-1]],
    )
