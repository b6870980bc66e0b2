// The order of values in a column of a table. Pure.

/** Compare two values. Null comes last in both directions. Numbers within texts are compared as numbers. */
export function byValue<T extends number | string | boolean>(
  here: T | null,
  there: T | null,
  isFalling: boolean,
): number {
  if (here === null || there === null) return Number(here === null) - Number(there === null);
  const way = isFalling ? -1 : 1;
  if (typeof here === "number" && typeof there === "number") return way * (here - there);
  return way * String(here).localeCompare(String(there), "en", { numeric: true });
}
