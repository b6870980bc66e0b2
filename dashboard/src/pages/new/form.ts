// The form's content. It is in the page's address, so that a reload or a link keeps it.

import { useEffect, useRef, useState } from "preact/hooks";
import type { FieldError } from "../../api/problem.ts";
import type { Preview } from "../../api/types.ts";
import { param } from "../../url.ts";
import { type Draft, edited, isObject, isSame, parsed, tidied, valueAt } from "./draft.ts";
import { type Previewed, usePreview } from "./preview.ts";
import type { PlacedErrors } from "./problems.ts";
import { type Field, isOfLoop, type Json, type JsonObject, SHORTHAND } from "./schema.ts";

const WRITTEN_AFTER_MS = 250; // browsers refuse an address that changes with every key

/** The content of the form, with its preview and its errors. */
export interface Content {
  readonly fields: readonly Field[];
  readonly draft: Draft;
  readonly previewed: Previewed<Preview>;
  readonly wrong: PlacedErrors;
  /** The fields that were set by an advice. */
  readonly advised: readonly string[];
}

/** The form as its fields get it. */
export interface Form extends Content {
  readonly edit: (field: Field, value: Json | undefined) => void;
}

/** The draft in the address, or else the one that the form starts with. */
export function useDraft(start: Draft, isAlwaysWritten: boolean): readonly [Draft, (draft: Draft) => void, () => void] {
  const address = param("spec");
  const text = address.value;
  const [draft, setDraft] = useState(() => parsed(text) ?? start);
  const writtenText = useRef(text); // the text that this form wrote to the address
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

/** The preview of a draft. Nothing is requested while it says neither what to train on nor what to run. */
export function useOutlook(draft: Draft, isAllowed: boolean): Previewed<Preview> {
  return usePreview(
    "/v1/jobs",
    isAllowed && (valueAt(draft, "dataset.source") !== undefined || isScript(draft)) ? draft : null,
  );
}

/** Whether a draft runs a person's own code. */
export function isScript(draft: Draft): boolean {
  return typeof draft["code"] === "string";
}

/** The value of a field that is not set: the one that the api resolved, as a dataset may set options. */
export function defaultOf(form: Content, field: Field): Json | undefined {
  const { preview, previewedDraft } = form.previewed;
  const wasUnset = previewedDraft !== undefined && valueAt(previewedDraft, field.path) === undefined;
  const resolved =
    wasUnset && preview !== undefined ? valueAt(preview.spec as unknown as JsonObject, field.path) : undefined;
  if (resolved === undefined) return field.defaultValue;
  return field.kind === "part" && isObject(resolved) ? {} : resolved;
}

/** The value of a field now. */
export function valueIn(form: Content, field: Field): Json | undefined {
  const own = valueAt(form.draft, field.path);
  return own === undefined ? defaultOf(form, field) : own;
}

/** Whether a field differs from its default. */
export function isChanged({ draft }: Content, { path, kind, defaultValue }: Field): boolean {
  const own = valueAt(draft, path);
  if (own === undefined || defaultValue === undefined) return false;
  if (kind === "part") return (own === null) !== (defaultValue === null);
  return !(path === MODEL && isSame(own, defaultValue)); // the model's name may be there only because of its other fields
}

const MODEL = "model.name";

export function errorsAt(form: Content, field: Field): readonly FieldError[] {
  return form.wrong.byPath.get(field.path) ?? [];
}

/** The draft after a field was set. A value equal to the default removes the field. */
export function afterEdit(form: Content, field: Field, value: Json | undefined): Draft {
  const isDefault = value === undefined || isSame(value, defaultOf(form, field));
  return tidied(edited(form.draft, field, isDefault ? undefined : value), form.fields);
}

/**
 * Whether a field is visible: fields of a part that is off, or whose main field is empty, are not. A field that scripts
 * refuse is visible in one only while it is set.
 */
export function isShown(form: Content, field: Field): boolean {
  if (isScript(form.draft) && isOfLoop(field) && valueAt(form.draft, field.path) === undefined) return false;
  const part = field.path.slice(0, Math.max(0, field.path.indexOf(".")));
  const main = SHORTHAND[part] === undefined ? part : `${part}.${SHORTHAND[part]}`;
  const decisive = form.fields.find(({ path }) => path === main && path !== field.path);
  return decisive === undefined || valueIn(form, decisive) !== null;
}
