// The part of the list of jobs that is loaded: how the answers of the api and of its stream fit together.

import { type Row, type StreamedProgress, type StreamedState, withProgress, withState } from "./row.ts";

export interface JobList {
  readonly rows: readonly Row[];
  /** Where the next page begins; null where there is none. */
  readonly nextCursor: string | null;
}

export const EMPTY: JobList = { rows: [], nextCursor: null };

/** The list with a newer first page.

    What is loaded behind that page stays, unless some row of it would have to be somewhere else by now: nobody can tell
    where, and the rows behind the page are loaded again as one scrolls to them. */
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

/** The list with the page that begins where it ended. */
export function withTail(list: JobList, tail: JobList): JobList {
  const known = new Set(list.rows.map((row) => row.id));
  return { rows: [...list.rows, ...tail.rows.filter((row) => !known.has(row.id))], nextCursor: tail.nextCursor };
}

/** The list with these rows as they are now, each where it was. */
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

/** The list after the stream told some news, and those of its rows of which there is more to be read. */
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

/** Of each row of a page the newer one: the stream may have told more than the page has, which was on its way. */
function newest(list: JobList, page: readonly Row[]): Row[] {
  const known = new Map(list.rows.map((row) => [row.id, row]));
  return page.map((row) => {
    const before = known.get(row.id);
    return before !== undefined && before.revision > row.revision ? before : row;
  });
}
