// A draft: the fields of a spec that a person set, and no others. The form marks them as changed, the page's address
// contains them, and they are what is submitted.

import { type Field, type Json, type JsonObject, SHORTHAND } from "./schema.ts";

export type Draft = JsonObject;

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isSame(first: Json | undefined, second: Json | undefined): boolean {
  if (Array.isArray(first) && Array.isArray(second))
    return first.length === second.length && first.every((item, index) => isSame(item, second[index]));
  if (isObject(first) && isObject(second)) {
    const names = Object.keys(first);
    return names.length === Object.keys(second).length && names.every((name) => isSame(first[name], second[name]));
  }
  return first === second;
}

/** The value at a dotted path of a spec or a draft; undefined if there is none. */
export function valueAt(spec: JsonObject, path: string): Json | undefined {
  const [name = "", key] = path.split(".");
  const value = spec[name];
  if (key === undefined) return value;
  if (typeof value === "string") return SHORTHAND[name] === key ? value : undefined;
  return isObject(value) ? value[key] : undefined;
}

/** The draft with a field set; undefined removes it, so that its default applies. */
export function edited(draft: Draft, field: Field, value: Json | undefined): Draft {
  const [name = "", key] = field.path.split(".");
  if (key === undefined) return value === undefined ? without(draft, name) : { ...draft, [name]: value };
  const before = asObject(name, draft[name]);
  const part = value === undefined ? without(before, key) : { ...before, [key]: value };
  return { ...draft, [name]: part };
}

/** The shortest form of a draft: a part with only its main field becomes a string, an empty part is left out. */
export function tidied(draft: Draft, fields: readonly Field[]): Draft {
  const defaults = new Map(fields.map(({ path, defaultValue }) => [path, defaultValue]));
  const entries = Object.entries(draft).flatMap(([name, value]): [string, Json][] => {
    const key = SHORTHAND[name];
    const isOffByItself = defaults.get(name) === null;
    if (!isObject(value) || name === "labels") return [[name, value]];
    const length = Object.keys(value).length;
    if (length === 0) return isOffByItself ? [[name, value]] : [];
    if (key === undefined) return [[name, value]];
    const main = value[key] ?? defaults.get(`${name}.${key}`);
    if (length === 1 && typeof value[key] === "string")
      return isSame(main, defaults.get(`${name}.${key}`)) ? [] : [[name, value[key]]];
    return [[name, main === undefined ? value : { [key]: main, ...value }]]; // a part is not merged with its default
  });
  return Object.fromEntries(entries);
}

/** The fields of a whole spec that differ from the defaults. */
export function differences(spec: JsonObject, fields: readonly Field[]): Draft {
  let draft: Draft = {};
  for (const field of fields) {
    const value = valueAt(spec, field.path);
    if (value === undefined) continue;
    const isSwitch = field.kind === "part";
    if (isSwitch ? (value === null) === (field.defaultValue === null) : isSame(value, field.defaultValue)) continue;
    draft = edited(draft, field, isSwitch && value !== null ? {} : value);
  }
  return tidied(draft, fields);
}

/** A draft with a change merged in: objects are merged, other values replace the old ones, as the api does it. */
export function merged(draft: Draft, change: JsonObject): Draft {
  const result: Record<string, Json> = { ...draft };
  for (const [name, value] of Object.entries(change)) {
    const before = asObject(name, result[name]);
    result[name] = isObject(value) ? merged(before, value) : value;
  }
  return result;
}

/** The paths of the fields that a change sets. */
export function pathsOf(change: JsonObject, fields: readonly Field[]): string[] {
  return fields.map(({ path }) => path).filter((path) => valueAt(change, path) !== undefined);
}

/** The draft of a text; undefined if the text is not a JSON object. */
export function parsed(text: string): Draft | undefined {
  try {
    const value = JSON.parse(text) as Json;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function without(object: JsonObject, name: string): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name));
}

/** A part of a draft as an object, also if it is written as a string. */
function asObject(name: string, value: Json | undefined): JsonObject {
  const key = SHORTHAND[name];
  if (typeof value === "string" && key !== undefined) return { [key]: value };
  return isObject(value) ? value : {};
}
