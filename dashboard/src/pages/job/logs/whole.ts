// A log as text: the whole of it, read page by page, for the download; and its newest lines as they are shown, to copy.

import type { LogLine } from "../../../api/types.ts";
import { type FetchPage, pathOf, type Source } from "./feed.ts";
import { plain, rankName, timeLengthOf, timeOf } from "./lines.ts";

const PAGE = 10_000;
/** Lines that are copied: as many as the api sends in one answer. */
export const MOST_COPIED = PAGE;

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
    const page = await fetchPage(pathOf(source, { after, limit: PAGE }));
    if (page === null || page.items.length === 0) return pages.join("");
    pages.push(page.items.map(asText).join(""));
    after = page.next_after;
    count += page.items.length;
    onCount(count);
  }
}

/** The newest lines of a source as the page shows them. The first line says if older ones are left out. */
export async function shownLog(source: Source, fetchPage: FetchPage, hasTimes: boolean): Promise<string> {
  const page = await fetchPage(pathOf(source, { tail: MOST_COPIED }));
  const lines = page?.items ?? [];
  const timeLength = timeLengthOf(lines);
  const texts = lines.map(({ at, rank, text }) => {
    const from = source.ranks.length !== 1 ? `${rankName(rank)}: ` : "";
    return `${hasTimes ? timeOf(at, timeLength) : ""}${from}${plain(text)}\n`;
  });
  const cut = page?.previous_before == null ? "" : `(only the newest ${MOST_COPIED.toLocaleString("en")} lines)\n`;
  return cut + texts.join("");
}

function asText({ at, attempt, rank, text }: LogLine): string {
  return `${at} ${attempt} ${rankName(rank)}: ${text}\n`;
}
