// A part of the api's OpenAPI document with every kind of field, for tests.

import type { OpenApi } from "./schema.ts";

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const NULL = { type: "null" };

export const DOCUMENT: OpenApi = {
  components: {
    schemas: {
      Spec: {
        properties: {
          name: { type: "string", default: "job" },
          code: { anyOf: [{ type: "string" }, NULL], default: null },
          command: { anyOf: [{ type: "array", items: { type: "string" } }, NULL], default: null },
          params: { type: "object", additionalProperties: ref("JsonValue"), default: {} },
          dataset: { anyOf: [{ type: "string" }, ref("DatasetSpec"), NULL], default: null },
          model: { anyOf: [{ type: "string" }, ref("ModelSpec"), NULL], default: "lenet5" },
          batch_size: {
            type: "integer",
            default: 32,
            minimum: 1,
            maximum: 1048576,
            description: "Samples in one step: of each GPU, or of all with `batch_per: global`.",
          },
          learning_rate: { type: "number", default: 0.001, exclusiveMinimum: 0, maximum: 1000 },
          min_gpus: { anyOf: [{ type: "integer", minimum: 1, maximum: 4096 }, NULL], default: null },
          optimizer: {
            anyOf: [{ type: "string", enum: ["adam", "nadam", "sgd"] }, ref("OptimizerSpec")],
            default: "adam",
          },
          class_weights: {
            anyOf: [
              { type: "string" },
              { type: "object", additionalProperties: { type: "number", exclusiveMinimum: 0 } },
              NULL,
            ],
            default: null,
          },
          early_stopping: { anyOf: [ref("EarlyStopping"), NULL] },
          goal: { anyOf: [ref("GoalSpec"), NULL], default: null },
          labels: { type: "object", default: {} },
          probe: { anyOf: [ref("ProbeSpec"), NULL], default: null, description: "Makes the job a batch probe." },
        },
      },
      DatasetSpec: {
        required: ["source"],
        properties: {
          source: { type: "string" },
          image_size: {
            anyOf: [{ type: "array", prefixItems: [{ type: "integer", minimum: 1, maximum: 4096 }] }, NULL],
            default: null,
          },
          validation: {
            anyOf: [{ type: "number", exclusiveMinimum: 0, exclusiveMaximum: 1 }, { type: "string" }],
            default: 0.1,
          },
          augment: {
            type: "array",
            items: {
              oneOf: [
                { type: "string", enum: ["flip_horizontal", "rotate_90"] },
                { $ref: "#/components/schemas/Crop" },
              ],
            },
            default: [],
          },
        },
      },
      ModelSpec: {
        required: ["name"],
        properties: {
          name: { type: "string" },
          freeze_base: { type: "boolean", default: true },
          dropout: { type: "number", default: 0, minimum: 0, exclusiveMaximum: 1 },
        },
      },
      OptimizerSpec: {
        required: ["name"],
        properties: {
          name: { type: "string", enum: ["adam", "nadam", "sgd"] },
          momentum: { anyOf: [{ type: "number", minimum: 0, exclusiveMaximum: 1 }, NULL], default: null },
        },
      },
      GoalSpec: {
        required: ["metric"],
        properties: {
          metric: { type: "string" },
          mode: { anyOf: [{ type: "string", enum: ["min", "max"] }, NULL], default: null },
        },
      },
      EarlyStopping: { properties: { patience: { type: "integer", default: 3, minimum: 1, maximum: 10000 } } },
      ProbeSpec: {
        properties: { smallest: { type: "integer", default: 8, minimum: 1, description: "The first batch to try." } },
      },
    },
  },
};
