// The query of the page's address, as plain functions. Used by `url.ts`.

/** Parameters to set. A list is set as one parameter for each item; null, "" and an empty list remove one. */
export type ParamChanges = Readonly<Record<string, string | readonly string[] | null>>;

/** The query with these parameters set. The others keep their order. */
export function withParams(query: string, changes: ParamChanges): string {
  const params = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    const [first, ...more] = typeof value === "string" ? [value] : (value ?? []);
    if (first === undefined || first === "") params.delete(name);
    else params.set(name, first);
    for (const item of more) params.append(name, item);
  }
  return queryText(params);
}

/** Parameters as a query. Commas and colons need no escapes there, and people read and send links. */
export function queryText(params: URLSearchParams): string {
  return params.toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
}

/** The items of a parameter that is a list. */
export function listOf(text: string): string[] {
  return text.split(",").filter((item) => item !== "");
}

/** The values by key of a list such as "batch_size:log,ID:3". The name of a metric may have a colon. */
export function pairsOf(text: string): Map<string, string> {
  return new Map(listOf(text).map((pair) => pair.split(/:(?=[^:]*$)/) as [string, string]));
}

export function pairsText(pairs: ReadonlyMap<string, string>): string {
  return [...pairs].map((pair) => pair.join(":")).join();
}

/** A path with a query of the parameters that have a value. A list becomes one parameter for each item. */
export function pathWith(
  path: string,
  params: Readonly<Record<string, string | number | boolean | null | undefined | readonly (string | number)[]>>,
): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "") continue;
    for (const item of Array.isArray(value) ? value : [value]) query.append(name, String(item));
  }
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
}
