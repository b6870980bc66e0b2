// Requests to the api, and the state of the connection to it. All of the page's data comes through here.

import { signal } from "@preact/signals";
import { type FieldError, Problem, problemOf } from "./problem.ts";

/** The connection to the api: `away` while it does not answer, `signed_out` when it asks for a token. */
export const connection = signal<{ state: "ok" | "away" | "signed_out"; detail?: string }>({ state: "ok" });

export interface Answer<T> {
  readonly status: number;
  readonly data: T;
  readonly etag: string | null;
}

export interface Options {
  readonly body?: unknown;
  readonly etag?: string | null;
  readonly signal?: AbortSignal;
  readonly headers?: Readonly<Record<string, string>>;
}

const SILENT = "The api does not answer";
const LONGEST_MS = 60_000; // an answer that takes longer will not come: its machine may be gone

/** Send a request. Raises `Problem`, with the status 0 when nothing answers. A 304 has no data. */
export async function call<T>(method: string, path: string, options: Options = {}): Promise<Answer<T>> {
  const late = AbortSignal.timeout(LONGEST_MS);
  const signal = options.signal ? AbortSignal.any([late, options.signal]) : late;
  try {
    const response = await send(method, path, { ...options, signal });
    const hasNone = response.status === 304 || response.status === 204;
    const data = hasNone ? (undefined as T) : ((await response.json()) as T);
    return { status: response.status, data, etag: response.headers.get("etag") };
  } catch (error) {
    throw late.aborted && !options.signal?.aborted
      ? noted(new Problem(0, "away", SILENT, "No answer came within a minute."))
      : error;
  }
}

/** The raw response, for callers that read a stream. Raises `Problem` for an error. */
export async function send(method: string, path: string, options: Options): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", ...options.headers };
  if (options.etag) headers["If-None-Match"] = options.etag;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-CSRF-Token"] = cookie("hora_csrf");
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      cache: "no-store",
      ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
      ...(options.signal ? { signal: options.signal } : {}),
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw noted(new Problem(0, "away", SILENT, "It is stopped, or the network is down."));
  }
  if (response.ok || response.status === 304) {
    if (connection.peek().state !== "ok") connection.value = { state: "ok" };
    return response;
  }
  throw noted(await problemOf(response));
}

export const get = async <T>(path: string): Promise<T> => (await call<T>("GET", path)).data;
export const post = async <T>(path: string, body?: unknown): Promise<T> => (await call<T>("POST", path, { body })).data;
export const remove = async (path: string): Promise<void> => void (await call("DELETE", path));

/** A new Idempotency-Key. Not `randomUUID`, which browsers have only on secure addresses. */
export function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Update the state of the connection from a problem, and return the problem. */
function noted(problem: Problem): Problem {
  if (problem.isAway) connection.value = { state: "away", detail: problem.detail || problem.title };
  else if (problem.status === 401) connection.value = { state: "signed_out" };
  else if (connection.peek().state === "away") connection.value = { state: "ok" };
  return problem;
}

function cookie(name: string): string {
  const found = document.cookie.split("; ").find((pair) => pair.startsWith(`${name}=`));
  return found === undefined ? "" : found.slice(name.length + 1);
}

export type { FieldError };
export { Problem };
