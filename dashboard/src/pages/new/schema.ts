// The fields of a spec from the api's schema: description, kind, default and limits.
// The form is made from them, so that a new field, range or choice is written in the api only.

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };

/** The part of JSON Schema that the api uses. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly enum?: readonly string[];
  readonly default?: Json;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly prefixItems?: readonly Schema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
}

export interface OpenApi {
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/**
 * `part` switches an object on or off, `choices` is a list of names that may have objects too, `sizes` is a fixed row of
 * integers, `pairs` is an object of strings, `json` is any other list or object.
 */
export type Kind =
  | "text"
  | "integer"
  | "number"
  | "text_or_number"
  | "flag"
  | "choice"
  | "choices"
  | "sizes"
  | "pairs"
  | "json"
  | "part";

export interface Field {
  /** Dotted, as in the api's errors: dataset.image_size. */
  readonly path: string;
  readonly kind: Kind;
  /** Sentences with code between backticks. */
  readonly description: string;
  /** Undefined if the field is required. For a part, `{}` means "on". */
  readonly defaultValue: Json | undefined;
  readonly isNullable: boolean;
  readonly options: readonly string[];
  /** In words: "1 to 4,096"; empty without limits. */
  readonly limits: string;
}

/** By object: the field that a plain string sets, if it is written instead of the object. */
export const SHORTHAND: Readonly<Record<string, string>> = {
  dataset: "source",
  model: "name",
  optimizer: "name",
  schedule: "name",
};

/** A field of a script: it needs no dataset, has no model, and stops early only if asked to. */
export function ofScript(field: Field): Field {
  return MAY_BE_NONE.has(field.path) ? { ...field, defaultValue: null } : field;
}

const MAY_BE_NONE: ReadonlySet<string> = new Set(["dataset.source", "model.name", "early_stopping"]);

/** What Hora's own loop does and a script does itself, as in `jobs/model/script_fields.py`: fields, and whole parts. */
const OF_LOOP: ReadonlySet<string> = new Set([
  "strategy",
  "accumulate",
  "schedule",
  "optimizer",
  "validation_steps",
  "weight_decay",
  "clip_norm",
  "label_smoothing",
  "class_weights",
  "precision",
  "jit",
  "allreduce",
  "probe",
  "checkpoint.every_epochs",
  "early_stopping.restore_best_weights",
  ...[
    "text_length",
    "vocabulary",
    "fraction",
    "samples",
    "balance",
    "sharding",
    "shuffle_buffer",
    "cache",
    "cache_limit_gb",
    "augment",
    "augment_mode",
  ].map((name) => `dataset.${name}`),
]);

/** Whether a script can have no other value of a field than its default. */
export function isOfLoop({ path }: Field): boolean {
  const [part = ""] = path.split(".");
  return OF_LOOP.has(path) || OF_LOOP.has(part);
}

/** Every field of a spec in the order of the schema. The fields of a part follow the part. */
export function fieldsOf(document: OpenApi): Field[] {
  const { schemas } = document.components;
  const spec = schemas["Spec"] ?? {};
  return Object.entries(spec.properties ?? {}).flatMap(([name, property]) => {
    const part = partOf(property, schemas);
    if (part === undefined) return [fieldOf(name, property, spec)];
    const isNullable = allows(property, "null");
    const isOn = property.default !== null;
    const description = property.description ?? "";
    const own: Field = { ...PLAIN, path: name, kind: "part", description, defaultValue: isOn ? {} : null, isNullable };
    const inner = Object.entries(part.properties ?? {}).map(([key, each]) => {
      const field = fieldOf(`${name}.${key}`, each, part);
      return key === SHORTHAND[name] ? { ...field, defaultValue: property.default ?? field.defaultValue } : field;
    });
    // A part with a main field is null while that field is empty.
    return isNullable && SHORTHAND[name] === undefined ? [own, ...inner] : inner;
  });
}

const PLAIN = { isNullable: false, options: [], limits: "" } as const;

function partOf(property: Schema, schemas: OpenApi["components"]["schemas"]): Schema | undefined {
  const ref = [property, ...(property.anyOf ?? [])].find((branch) => branch.$ref !== undefined)?.$ref;
  return ref === undefined ? undefined : schemas[ref.slice(ref.lastIndexOf("/") + 1)];
}

function fieldOf(path: string, property: Schema, parent: Schema): Field {
  const isRequired = parent.required?.includes(path.slice(path.lastIndexOf(".") + 1)) ?? false;
  return {
    path,
    kind: kindOf(property),
    description: property.description ?? "",
    defaultValue: isRequired ? undefined : (property.default ?? null),
    isNullable: allows(property, "null"),
    options: enumOf(property) ?? namesIn(property.items) ?? [],
    limits: limitsOf(property),
  };
}

function allows(property: Schema, type: string): boolean {
  return property.type === type || (property.anyOf?.some((branch) => branch.type === type) ?? false);
}

function enumOf(property: Schema): readonly string[] | undefined {
  return [property, ...(property.anyOf ?? [])].find((branch) => branch.enum !== undefined)?.enum;
}

/** The names that may be items of a list, beside objects. */
function namesIn(items: Schema | undefined): readonly string[] | undefined {
  return [items, ...(items?.oneOf ?? [])].find((branch) => branch?.enum !== undefined)?.enum;
}

function kindOf(property: Schema): Kind {
  if (enumOf(property) !== undefined) return "choice";
  if (allows(property, "array")) {
    const isFixed = [property, ...(property.anyOf ?? [])].some((branch) => branch.prefixItems !== undefined);
    return isFixed ? "sizes" : namesIn(property.items) === undefined ? "json" : "choices";
  }
  const object = [property, ...(property.anyOf ?? [])].find((branch) => branch.type === "object");
  if (object !== undefined) return typeof object.additionalProperties === "object" ? "json" : "pairs";
  if (allows(property, "boolean")) return "flag";
  if (allows(property, "integer")) return "integer";
  if (allows(property, "number")) return allows(property, "string") ? "text_or_number" : "number";
  return "text";
}

function limitsOf(property: Schema): string {
  const branches = [property, ...(property.anyOf ?? [])].flatMap((branch) => [branch, ...(branch.prefixItems ?? [])]);
  const limited = branches.find(
    (branch) => (branch.minimum ?? branch.exclusiveMinimum ?? branch.maximum ?? branch.exclusiveMaximum) !== undefined,
  );
  if (limited === undefined) return "";
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = limited;
  if (minimum !== undefined && maximum !== undefined) return `${figure(minimum)} to ${figure(maximum)}`;
  const bounds = [
    minimum === undefined ? "" : `at least ${figure(minimum)}`,
    exclusiveMinimum === undefined ? "" : `above ${figure(exclusiveMinimum)}`,
    maximum === undefined ? "" : `at most ${figure(maximum)}`,
    exclusiveMaximum === undefined ? "" : `below ${figure(exclusiveMaximum)}`,
  ];
  return bounds.filter((bound) => bound !== "").join(", ");
}

function figure(value: number): string {
  return value.toLocaleString("en", { maximumSignificantDigits: 15 });
}
