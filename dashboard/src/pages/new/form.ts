// The form's content and what is done with it. It lives in the page's address, so that a reload or a link keeps it.

import { useEffect, useRef, useState } from "preact/hooks";
import type { FieldError } from "../../api/problem.ts";
import { param } from "../../url.ts";
import { type Draft, edited, isObject, isSame, parsed, tidied, valueAt } from "./draft.ts";
import { type Previewed, usePreview } from "./preview.ts";
import type { PlacedErrors } from "./problems.ts";
import type { Field, Json, JsonObject } from "./schema.ts";

const WRITTEN_AFTER_MS = 250; // browsers refuse an address that changes with every key

/** What there is to know of the form's content. */
export interface Content {
  readonly fields: readonly Field[];
  readonly draft: Draft;
  readonly previewed: Previewed;
  readonly wrong: PlacedErrors;
  /** The fields that were set by an advice. */
  readonly advised: readonly string[];
}

/** What its fields are given. */
export interface Form extends Content {
  readonly edit: (field: Field, value: Json | undefined) => void;
}

/** The draft, as the address has it or else as it starts. */
export function useDraft(start: Draft, isAlwaysWritten: boolean): readonly [Draft, (draft: Draft) => void, () => void] {
  const address = param("spec");
  const text = address.value;
  const [draft, setDraft] = useState(() => parsed(text) ?? start);
  const writtenText = useRef(text); // in the address, by our own doing
  useEffect(() => {
    if (text === writtenText.current) return;
    writtenText.current = text;
    setDraft(parsed(text) ?? start);
  }, [text, start]);

  const write = (): void => {
    const isEmpty = Object.keys(draft).length === 0 && !isAlwaysWritten;
    writtenText.current = isEmpty ? "" : JSON.stringify(draft);
    address.set(writtenText.current);
  };
  useEffect(() => {
    const timer = setTimeout(write, WRITTEN_AFTER_MS);
    return () => clearTimeout(timer);
  }, [draft]);
  return [draft, setDraft, write];
}

/** The plan of a draft that names its data; without, there is nothing to ask about. */
export function useOutlook(draft: Draft, isAllowed: boolean): Previewed {
  return usePreview(isAllowed && valueAt(draft, "dataset.source") !== undefined ? draft : null);
}

/** What holds for a field that is not set: what the api made of it, as data comes with options of its own. */
export function defaultOf(form: Content, field: Field): Json | undefined {
  const { preview, previewedDraft } = form.previewed;
  const wasUnset = previewedDraft !== undefined && valueAt(previewedDraft, field.path) === undefined;
  const resolved =
    wasUnset && preview !== undefined ? valueAt(preview.spec as unknown as JsonObject, field.path) : undefined;
  if (resolved === undefined) return field.defaultValue;
  return field.kind === "part" && isObject(resolved) ? {} : resolved;
}

/** What a field says now. */
export function valueIn(form: Content, field: Field): Json | undefined {
  const own = valueAt(form.draft, field.path);
  return own === undefined ? defaultOf(form, field) : own;
}

/** Whether a field that has a default says something else. */
export function isChanged({ draft }: Content, { path, kind, defaultValue }: Field): boolean {
  const own = valueAt(draft, path);
  if (own === undefined || defaultValue === undefined) return false;
  if (kind === "part") return (own === null) !== (defaultValue === null);
  return !(path === MODEL && isSame(own, defaultValue)); // it also stands there for the sake of the other fields of the model
}

const MODEL = "model.name";

export function errorsAt(form: Content, field: Field): readonly FieldError[] {
  return form.wrong.byPath.get(field.path) ?? [];
}

/** The draft after a field was set; to what holds anyway is to none. */
export function afterEdit(form: Content, field: Field, value: Json | undefined): Draft {
  const isDefault = value === undefined || isSame(value, defaultOf(form, field));
  return tidied(edited(form.draft, field, isDefault ? undefined : value), form.fields);
}

/** Whether a field can be seen: those of a part that is off are not. */
export function isShown(form: Content, field: Field): boolean {
  const dot = field.path.indexOf(".");
  const part = form.fields.find(({ path, kind }) => kind === "part" && path === field.path.slice(0, Math.max(0, dot)));
  return part === undefined || valueIn(form, part) !== null;
}
