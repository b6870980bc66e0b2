// An error answer of the api (RFC 9457).

export interface FieldError {
  readonly field: string;
  readonly message: string;
  readonly received?: unknown;
}

export class Problem extends Error {
  readonly status: number;
  readonly slug: string;
  readonly title: string;
  readonly detail: string;
  readonly errors: readonly FieldError[];

  constructor(status: number, slug: string, title: string, detail = "", errors: readonly FieldError[] = []) {
    super(detail === "" ? title : `${title}: ${detail}`);
    this.status = status;
    this.slug = slug;
    this.title = title;
    this.detail = detail;
    this.errors = errors;
  }

  /** Whether the api or its database does not answer at the moment. Asking again may help. */
  get isAway(): boolean {
    return this.status === 0 || (this.status >= 502 && this.status <= 504);
  }
}

/** The problem in an error answer, which may also be a proxy's HTML page. */
export async function problemOf(response: Response): Promise<Problem> {
  const said: unknown = await response.json().catch(() => null);
  if (typeof said !== "object" || said === null) {
    return new Problem(response.status, "unknown", response.statusText || `Status ${response.status}`);
  }
  const { type, title, detail, errors } = said as Record<string, unknown>;
  return new Problem(
    response.status,
    String(type ?? "").replace(/^urn:hora:problem:/, ""),
    String(title ?? response.statusText),
    typeof detail === "string" ? detail : "",
    Array.isArray(errors) ? (errors as FieldError[]) : [],
  );
}
