"""The last step of each series of an attempt. Read by the intake of a script that goes on where another one ended."""

from sqlalchemy import func, select, union_all
from sqlalchemy.orm import Session

from jobs.db.tables import MetricBlock, MetricPoint


def last_steps(session: Session, job_id: str, attempt: int) -> dict[tuple[int, str], int]:
    """The newest stored step by rank (-1: over all ranks) and name."""
    point, block = MetricPoint, MetricBlock
    points = select(point.rank, point.name, func.max(point.step).label("step"))
    blocks = select(block.rank, block.name, func.max(block.last_step).label("step"))
    newest = union_all(
        points.where(point.job_id == job_id, point.attempt == attempt).group_by(point.rank, point.name),
        blocks.where(block.job_id == job_id, block.attempt == attempt).group_by(block.rank, block.name),
    ).subquery()
    rows = session.execute(
        select(newest.c.rank, newest.c.name, func.max(newest.c.step)).group_by(newest.c.rank, newest.c.name)
    )
    return {(rank, name): step for rank, name, step in rows}
