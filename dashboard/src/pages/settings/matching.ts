// What the forms and searches of these pages read. Pure.

/** Whether one of the texts contains each word of a search, in upper or lower case. */
export function matches(texts: readonly (string | null | undefined)[], search: string): boolean {
  const whole = texts.join("\n").toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => whole.includes(word));
}

/** A text field; undefined if it is empty, so that the service takes its default. */
export function textOf(fields: FormData, name: string): string | undefined {
  const value = fields.get(name);
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

/** A field with a number; null if it is empty. A text that is no number goes to the service, which says so. */
export function numberOf(fields: FormData, name: string): number | string | null {
  const text = textOf(fields, name);
  if (text === undefined) return null;
  return Number.isFinite(Number(text)) ? Number(text) : text;
}

/** A time of a field of the type datetime-local, as the service takes it; null if it is empty. */
export function timeOf(text: string): string | null {
  const date = new Date(text);
  return text === "" || Number.isNaN(date.getTime()) ? null : date.toISOString();
}

const SCOPES = ["read", "submit", "code", "admin"] as const;

/** The scopes that a token of this scope may give to others. */
export function narrowerScopes(scope: string): string[] {
  return SCOPES.slice(0, SCOPES.indexOf(scope as (typeof SCOPES)[number]) + 1);
}

/** The page about the subject of an entry of the log; null if there is none. */
export function pageOf(action: string, subject: string | null): string | null {
  if (subject === null) return null;
  const kind = action.slice(0, action.indexOf("."));
  const name = encodeURIComponent(subject);
  const pages: Record<string, string> = {
    job: `/jobs/${name}`,
    study: `/studies/${name}`,
    project: `/projects/${name}`,
    webhook: `/webhooks/${name}`,
    view: `/?view=${name}`,
    dataset: `/datasets/${encodeURIComponent(subject.split("@")[0] ?? "")}`,
    host: "/hosts",
    user: `/tokens?user=${name}`,
  };
  return action.endsWith("deleted") || action.endsWith("removed") ? null : (pages[kind] ?? null);
}

/** What an entry of the log says besides: `max_slots: 4, is_open: false`. */
export function detailsOf(data: Readonly<Record<string, unknown>>): string {
  return Object.entries(data)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}
