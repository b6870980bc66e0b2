// Lines of CSV files (RFC 4180).

export type Cell = string | number | boolean | null;

/** One line. A text that a spreadsheet would take for a formula gets an apostrophe before it. */
export function csvLine(values: readonly Cell[]): string {
  return `${values.map(cellText).join(",")}\r\n`;
}

// A cell in quotes, or a bare one, and what ends it.
const CELL = /(?:"([^"]*(?:""[^"]*)*)"|([^,\r\n]*))(,|\r\n?|\n|$)/g;

/** The cells of each line of a file. */
export function csvRows(text: string): string[][] {
  let row: string[] = [];
  const rows = [row];
  for (const [, quoted, bare = "", end] of text.replace(/\r?\n$/, "").matchAll(CELL)) {
    row.push(quoted?.replaceAll('""', '"') ?? bare);
    if (end === "") break; // the end of the text would match once more
    if (end === ",") continue;
    row = [];
    rows.push(row);
  }
  return rows;
}

function cellText(value: Cell): string {
  if (value === null || (typeof value === "number" && !Number.isFinite(value))) return "";
  const text = typeof value === "string" ? harmless(value) : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The same rule as in `jobs/model/csv_cells.py`: formulas begin so, in some spreadsheets in full width. */
function harmless(text: string): string {
  return /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(text) ? `'${text}` : text;
}
