// Lines of a log as data: joined without repeats, cleaned of what drives a terminal, laid out in rows, searched.
// Used by `feed.ts` and the parts that show a log.

import type { LogLine } from "../../../api/types.ts";

export const CUT = 2000; // characters of a line that are shown before one asks for all of them

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const TERMINAL_CODES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A line as it would stand on a terminal in the end: without colours, and with what was last drawn over itself. */
export function plain(text: string): string {
  const drawn = text.replace(TERMINAL_CODES, "").split("\r");
  const last = drawn.findLast((part) => part !== "") ?? "";
  return last.replaceAll("\t", "    ").replace(CONTROLS, "\ufffd");
}

/** Lines with those behind them; what is there already is not there twice. */
export function withNewer(lines: readonly LogLine[], newer: readonly LogLine[]): readonly LogLine[] {
  const last = lines.at(-1)?.id ?? -1;
  const fresh = newer.filter(({ id }) => id > last);
  return fresh.length === 0 ? lines : lines.concat(fresh);
}

/** Lines with those before them. */
export function withOlder(lines: readonly LogLine[], older: readonly LogLine[]): readonly LogLine[] {
  const first = lines[0]?.id ?? Number.POSITIVE_INFINITY;
  const fresh = older.filter(({ id }) => id < first);
  return fresh.length === 0 ? lines : fresh.concat(lines);
}

/** Where the line with an id is, or the first one behind that place. */
export function indexOfId(lines: readonly LogLine[], id: number): number {
  return firstIndex(lines.length, (index) => (lines[index] as LogLine).id >= id);
}

/** The row at which each line begins where rows have so many columns, and behind the last one how many rows there are.
 *  A long line that is not opened has a row more: for what opens it. */
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

// Signs that take two columns each: Chinese, Japanese, Korean and pictures.
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

/** The least index from 0 to `count` for which `isPast` holds; it must hold for all behind it. */
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

/** The places of the lines that contain a text, whatever the case. */
export function matchesOf(lines: readonly LogLine[], needle: string): readonly number[] {
  if (needle === "") return [];
  const wanted = needle.toLowerCase();
  const found: number[] = [];
  lines.forEach(({ text }, index) => {
    if (text.toLowerCase().includes(wanted)) found.push(index);
  });
  return found;
}

/** A text in pieces; every second one is what was looked for. */
export function piecesOf(text: string, needle: string): string[] {
  const lower = text.toLowerCase();
  // Where lower case has another length, places in it say nothing about the text.
  if (needle === "" || lower.length !== text.length) return [text];
  const wanted = needle.toLowerCase();
  const pieces: string[] = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    pieces.push(text.slice(from, at), text.slice(at, at + wanted.length));
    from = at + wanted.length;
  }
  return [...pieces, text.slice(from)];
}

/** The last lines that tell why a job failed: those of its ranks, as the launcher's say where in the launcher it was
 *  noticed; its own where no rank came up, or none said anything. */
export function lastWords(lines: readonly LogLine[], isOfLauncher: boolean, most: number): readonly LogLine[] {
  const ofRanks = isOfLauncher ? [] : lines.filter(({ rank }) => rank >= 0);
  return (ofRanks.length === 0 ? lines : ofRanks).filter(({ text }) => text.trim() !== "").slice(-most);
}

/** Who printed a line, in a word. */
export function rankName(rank: number): string {
  return rank < 0 ? "launcher" : `rank ${rank}`;
}
