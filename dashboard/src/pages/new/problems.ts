// The api's errors, by field of the form.

import type { FieldError } from "../../api/problem.ts";
import { type Field, SHORTHAND } from "./schema.ts";

export interface PlacedErrors {
  /** By the path of the field. */
  readonly byPath: ReadonlyMap<string, readonly FieldError[]>;
  /** Errors that belong to no field of the form. */
  readonly withoutField: readonly FieldError[];
}

export const NO_ERRORS: PlacedErrors = { byPath: new Map(), withoutField: [] };

/** The errors by field: labels.a belongs to labels, dataset to its source, dataset.image_size.0 to the size. */
export function placeErrors(errors: readonly FieldError[], fields: readonly Field[]): PlacedErrors {
  const paths = new Set(fields.map(({ path }) => path));
  const byPath = new Map<string, FieldError[]>();
  const withoutField: FieldError[] = [];
  for (const error of errors) {
    const path = pathFor(error.field, paths);
    if (path === undefined) withoutField.push(error);
    else byPath.set(path, [...(byPath.get(path) ?? []), error]);
  }
  return { byPath, withoutField };
}

function pathFor(field: string, paths: ReadonlySet<string>): string | undefined {
  const main = `${field}.${SHORTHAND[field]}`;
  if (paths.has(main)) return main;
  for (let path = field; path !== ""; path = path.slice(0, Math.max(0, path.lastIndexOf("."))))
    if (paths.has(path)) return path;
  return undefined;
}

/** The text of a field's errors: what is allowed, and the received value. Alternatives are joined with "or". */
export function errorText(errors: readonly FieldError[], field?: Field): string {
  const says = errors.map((error) => itemPrefix(error.field, field) + error.message);
  const received = errors.find((error) => typeof error.received === "string")?.received;
  const came = received === undefined || received === "" || received === "None" ? "" : ` It was ${String(received)}.`;
  const text = [...new Set(says)].join("; or ");
  return `${text}${text.endsWith("?") ? "" : "."}${came}`;
}

/** The name of the item that an error belongs to, for fields with several items. */
function itemPrefix(path: string, field: Field | undefined): string {
  if (field === undefined || !path.startsWith(`${field.path}.`)) return "";
  const item = path.slice(field.path.length + 1).replace(/\.?\[key\]$/, "");
  if (field.kind === "sizes") return `${item === "0" ? "height" : "width"}: `;
  return field.kind === "pairs" || field.kind === "json" ? `${item}: ` : "";
}
