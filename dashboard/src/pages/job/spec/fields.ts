// A spec as a list of fields with their defaults. Used by `spec_panel.tsx`.

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type Fields = { readonly [key: string]: Json };

export interface Field {
  readonly path: string;
  readonly value: Json;
  /** Undefined if the field is required. */
  readonly defaultValue: Json | undefined;
  readonly isChanged: boolean;
  /** Required if another field of its part is set. */
  readonly isNeeded: boolean;
}

/** A type in the OpenAPI document. */
export interface Schema {
  readonly default?: Json;
  readonly properties?: { readonly [key: string]: Schema };
  readonly required?: readonly string[];
  readonly $ref?: string;
  readonly anyOf?: readonly Schema[];
}
export type Schemas = { readonly [name: string]: Schema };

/** The fields of a spec, nested ones with their paths, in the order of the spec's schema. */
export function fieldsOf(spec: Fields, schemas: Schemas): Field[] {
  return fieldsBelow(spec, schemas["Spec"], schemas, "");
}

/** `short` is the default of the part as a plain string, which sets its required field. */
function fieldsBelow(
  value: Fields,
  schema: Schema | undefined,
  schemas: Schemas,
  prefix: string,
  short?: Json,
): Field[] {
  const known = Object.keys(schema?.properties ?? {}).filter((name) => name in value);
  const others = Object.keys(value).filter((name) => !known.includes(name));
  return [...known, ...others].flatMap((name) => {
    const below = value[name] as Json;
    const fieldSchema = schema?.properties?.[name];
    const path = prefix + name;
    const type = fieldSchema && objectOf(fieldSchema, schemas);
    if (isObject(below) && type !== undefined)
      return fieldsBelow(below, type, schemas, `${path}.`, fieldSchema?.default);
    const isNeeded = schema?.required?.includes(name) ?? false;
    // A part that is off, such as early stopping, is on by default unless its default is null.
    const isOnByItself = fieldSchema?.default === undefined && below === null && type !== undefined;
    const defaultValue = isOnByItself ? "on" : isNeeded ? short : fieldSchema?.default;
    return [{ path, value: below, defaultValue, isChanged: !isSame(below, defaultValue), isNeeded }];
  });
}

/** The object type of a field, if it has one. */
function objectOf(schema: Schema, schemas: Schemas): Schema | undefined {
  const refs = [schema, ...(schema.anyOf ?? [])].map(({ $ref }) => $ref?.split("/").at(-1));
  const name = refs.find((ref) => ref !== undefined && schemas[ref]?.properties !== undefined);
  return name === undefined ? undefined : schemas[name];
}

/** The fields that differ from the defaults, as an object to submit. */
export function changesOf(fields: readonly Field[]): Fields {
  const changes: Record<string, Json> = {};
  const parts = new Set(fields.filter(({ isChanged }) => isChanged).map(({ path }) => partOf(path)));
  for (const { path, value, isChanged, isNeeded } of fields) {
    if (!isChanged && !(isNeeded && parts.has(partOf(path)))) continue;
    const names = path.split(".");
    let place = changes as Record<string, Json>;
    for (const name of names.slice(0, -1)) {
      place[name] ??= {};
      place = place[name] as Record<string, Json>;
    }
    place[names.at(-1) as string] = value;
  }
  return changes;
}

function partOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf(".")));
}

function isObject(value: Json): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isSame(a: Json, b: Json | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
