// Lines of CSV files (RFC 4180).

export type Cell = string | number | boolean | null;

/** One line. A text that a spreadsheet would take for a formula gets an apostrophe before it. */
export function csvLine(values: readonly Cell[]): string {
  return `${values.map(cellText).join(",")}\r\n`;
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
