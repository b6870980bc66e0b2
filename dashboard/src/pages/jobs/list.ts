// The loaded part of the list of jobs: merges the answers of the api and of its stream.

import { type Row, type StreamedProgress, type StreamedState, withProgress, withState } from "./row.ts";

export interface JobList {
  readonly rows: readonly Row[];
  /** The cursor of the next page; null if there is none. */
  readonly nextCursor: string | null;
}

export const EMPTY: JobList = { rows: [], nextCursor: null };

/** The list with a newer first page.

    Rows after that page stay, unless one of the earlier rows has moved: its new position is unknown,
    and the rows after the page are loaded again on scrolling. */
export function withHead(list: JobList, head: JobList): JobList {
  const places = new Map(list.rows.map((row, index) => [row.id, index]));
  const inHead = new Set(head.rows.map((row) => row.id));
  const last = head.rows.findLast((row) => places.has(row.id));
  if (last === undefined || head.nextCursor === null) return { ...head, rows: newest(list, head.rows) };
  const end = (places.get(last.id) as number) + 1;
  const isMissing = list.rows.slice(0, end).some((row) => !inHead.has(row.id));
  const rest = isMissing ? [] : list.rows.slice(end).filter((row) => !inHead.has(row.id));
  return {
    rows: [...newest(list, head.rows), ...rest],
    nextCursor: rest.length === 0 ? head.nextCursor : list.nextCursor,
  };
}

/** The list with its next page appended. */
export function withTail(list: JobList, tail: JobList): JobList {
  const known = new Set(list.rows.map((row) => row.id));
  return { rows: [...list.rows, ...tail.rows.filter((row) => !known.has(row.id))], nextCursor: tail.nextCursor };
}

/** The list with newer versions of some rows, each in its old position. */
export function withRows(list: JobList, read: readonly Row[]): JobList {
  const byId = new Map(read.map((row) => [row.id, row]));
  let isSame = true;
  const rows = list.rows.map((row) => {
    const now = byId.get(row.id);
    if (now === undefined || now.revision < row.revision) return row;
    isSame = false;
    return { ...now, page: row.page };
  });
  return isSame ? list : { ...list, rows };
}

/** The list without some rows. */
export function without(list: JobList, isGone: (row: Row) => boolean): JobList {
  const rows = list.rows.filter((row) => !isGone(row));
  return rows.length === list.rows.length ? list : { ...list, rows };
}

export interface News {
  readonly states: ReadonlyMap<string, StreamedState>;
  readonly progress: ReadonlyMap<string, StreamedProgress["progress"]>;
}

/** The list after events of the stream, and the rows to read again. */
export function withNews(list: JobList, { states, progress }: News): { list: JobList; stale: Row[] } {
  const stale: Row[] = [];
  let isSame = true;
  const rows = list.rows.map((row) => {
    let now = row;
    const state = states.get(row.id);
    if (state !== undefined && state.revision > row.revision) {
      now = withState(row, state);
      stale.push(now);
    }
    const moved = progress.get(row.id);
    if (moved !== undefined && now.ended_at === null) now = withProgress(now, moved);
    if (now !== row) isSame = false;
    return now;
  });
  return { list: isSame ? list : { ...list, rows }, stale };
}

/** The newer version of each row of a page. An event may be newer than the page, which was on its way. */
function newest(list: JobList, page: readonly Row[]): Row[] {
  const known = new Map(list.rows.map((row) => [row.id, row]));
  return page.map((row) => {
    const before = known.get(row.id);
    return before !== undefined && before.revision > row.revision ? before : row;
  });
}
