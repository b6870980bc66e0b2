// Lines of a log as data: joined without repeats, cleaned of terminal codes, laid out in rows, searched.
// Used by `feed.ts` and the parts that show a log.

import type { LogLevel, LogLine } from "../../../api/types.ts";

export const CUT = 2000; // characters of a line that are shown until a person opens it

// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression looks for them
const TERMINAL_CODES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression looks for them
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A line as a terminal would finally show it: without colours, and with the last text after carriage returns. */
export function plain(text: string): string {
  const drawn = text.replace(TERMINAL_CODES, "").split("\r");
  const last = drawn.findLast((part) => part !== "") ?? "";
  return last.replaceAll("\t", "    ").replace(CONTROLS, "\ufffd");
}

/** From the least to the most serious one. */
export const LEVELS: readonly LogLevel[] = ["debug", "info", "warning", "error"];

/** Whether a level is `least`, or more serious. */
export function isAtLeast(level: LogLevel, least: LogLevel | null): boolean {
  return least === null || LEVELS.indexOf(level) >= LEVELS.indexOf(least);
}

/** Lines with newer ones appended, without repeats. */
export function withNewer(lines: readonly LogLine[], newer: readonly LogLine[]): readonly LogLine[] {
  const last = lines.at(-1)?.id ?? -1;
  const fresh = newer.filter(({ id }) => id > last);
  return fresh.length === 0 ? lines : lines.concat(fresh);
}

/** Lines with older ones prepended, without repeats. */
export function withOlder(lines: readonly LogLine[], older: readonly LogLine[]): readonly LogLine[] {
  const first = lines[0]?.id ?? Number.POSITIVE_INFINITY;
  const fresh = older.filter(({ id }) => id < first);
  return fresh.length === 0 ? lines : fresh.concat(lines);
}

/** The index of the line with an id, or of the first later line. */
export function indexOfId(lines: readonly LogLine[], id: number): number {
  return firstIndex(lines.length, (index) => (lines[index] as LogLine).id >= id);
}

/** The first row of each line, in rows of `columns` letters, and at the end the number of rows.
 *  A long line that is not opened has an extra row, for the button that opens it. */
export function rowStarts(lines: readonly LogLine[], columns: number, opened: ReadonlySet<number>): Uint32Array {
  const starts = new Uint32Array(lines.length + 1);
  let row = 0;
  lines.forEach(({ id, text }, index) => {
    starts[index] = row;
    const isCut = text.length > CUT && !opened.has(id);
    row += rowsOf(isCut ? text.slice(0, CUT) : text, columns) + (isCut ? 1 : 0);
  });
  starts[lines.length] = row;
  return starts;
}

// Characters of two columns: Chinese, Japanese, Korean and emoji.
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/gu;
const HAS_MORE_THAN_LATIN = /[^ -\u00ff]/; // control signs are gone by now

/** How many rows a text takes. */
function rowsOf(text: string, columns: number): number {
  if (!HAS_MORE_THAN_LATIN.test(text)) return Math.max(1, Math.ceil(text.length / columns));
  const wide = text.match(WIDE)?.length ?? 0;
  // A wide sign that does not fit into the last column of a row leaves it free.
  return Math.max(1, Math.ceil(([...text].length + wide) / (wide > 0 ? Math.max(1, columns - 1) : columns)));
}

/** The line that a row is part of. */
export function lineAtRow(starts: Uint32Array, row: number): number {
  return Math.max(0, firstIndex(starts.length, (index) => (starts[index] as number) > row) - 1);
}

/** The least index from 0 to `count` for which `isPast` holds. It must hold for all later ones. */
function firstIndex(count: number, isPast: (index: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isPast(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The indices of the lines that contain a text, ignoring case. */
export function matchesOf(lines: readonly LogLine[], needle: string): readonly number[] {
  if (needle === "") return [];
  const lowerNeedle = needle.toLowerCase();
  const matchIndexes: number[] = [];
  lines.forEach(({ text }, index) => {
    if (text.toLowerCase().includes(lowerNeedle)) matchIndexes.push(index);
  });
  return matchIndexes;
}

/** A text split at matches; every second piece is a match. */
export function piecesOf(text: string, needle: string): string[] {
  const lower = text.toLowerCase();
  // If lower case has another length, its indices do not fit the text.
  if (needle === "" || lower.length !== text.length) return [text];
  const lowerNeedle = needle.toLowerCase();
  const pieces: string[] = [];
  let from = 0;
  for (let at = lower.indexOf(lowerNeedle); at >= 0; at = lower.indexOf(lowerNeedle, from)) {
    pieces.push(text.slice(from, at), text.slice(at, at + lowerNeedle.length));
    from = at + lowerNeedle.length;
  }
  return [...pieces, text.slice(from)];
}

/** The last lines of a failed job: those of its ranks, as the launcher's lines only show where the launcher
 *  noticed the failure. All lines count if the launch failed, or if no rank printed anything. */
export function lastWords(lines: readonly LogLine[], isOfLauncher: boolean, most: number): readonly LogLine[] {
  const ofRanks = isOfLauncher ? [] : lines.filter(({ rank }) => rank >= 0);
  return (ofRanks.length === 0 ? lines : ofRanks).filter(({ text }) => text.trim() !== "").slice(-most);
}

/** The source of a line: a rank or the launcher. */
export function rankName(rank: number): string {
  return rank < 0 ? "launcher" : `rank ${rank}`;
}

const CLOCK = 9; // letters: "14:02:03 "
const DAY = 6; // letters: "11-27 "

/** How many letters the time of each line takes: with the date if the lines are of several days. */
export function timeLengthOf(lines: readonly LogLine[]): number {
  const isOneDay = lines[0]?.at.slice(0, 10) === lines.at(-1)?.at.slice(0, 10);
  return isOneDay ? CLOCK : DAY + CLOCK;
}

/** A time on this machine's clock, in as many letters. `Intl` takes much longer. */
export function timeOf(at: string, length: number): string {
  const date = new Date(at);
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = length > CLOCK ? `${two(date.getMonth() + 1)}-${two(date.getDate())} ` : "";
  return `${day}${date.toTimeString().slice(0, 8)} `;
}
