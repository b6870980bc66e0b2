// A whole log as text, read page by page: for the download.

import type { LogLine } from "../../../api/types.ts";
import { pathWith } from "../../../query.ts";
import type { FetchPage, Source } from "./feed.ts";
import { rankName } from "./lines.ts";

const PAGE = 10_000;

/** All lines of a source, each with its time, attempt and rank. Calls `onCount` with the lines read so far. */
export async function wholeLog(
  source: Source,
  fetchPage: FetchPage,
  onCount: (lines: number) => void,
): Promise<string> {
  const pages: string[] = [];
  let after = 0;
  let count = 0;
  for (;;) {
    const { job, rank, attempt, level, search } = source;
    const page = await fetchPage(
      pathWith(`/v1/jobs/${job}/logs`, { after, limit: PAGE, rank, attempt, level, search }),
    );
    if (page === null || page.items.length === 0) return pages.join("");
    pages.push(page.items.map(asText).join(""));
    after = page.next_after;
    count += page.items.length;
    onCount(count);
  }
}

function asText({ at, attempt, rank, text }: LogLine): string {
  return `${at} ${attempt} ${rankName(rank)}: ${text}\n`;
}
