// The label and the group of each field in the form. Descriptions, kinds, defaults and limits come from the
// schema. A field that is missing here is labelled with its name. A name that no field has is a type error.

import type { components } from "../../api/schema.d.ts";

type Schemas = components["schemas"];
type Part = "dataset" | "model" | "checkpoint" | "schedule" | "optimizer";
export type Path =
  | Exclude<keyof Schemas["Spec"], Part>
  | `dataset.${keyof Schemas["DatasetSpec"]}`
  | `model.${keyof Schemas["ModelSpec"]}`
  | `schedule.${keyof Schemas["ScheduleSpec"]}`
  | `optimizer.${keyof Schemas["OptimizerSpec"]}`
  | `early_stopping.${keyof Schemas["EarlyStopping"]}`
  | `checkpoint.${keyof Schemas["CheckpointSpec"]}`
  | `probe.${keyof Schemas["ProbeSpec"]}`
  | `goal.${keyof Schemas["GoalSpec"]}`;

export type GroupId =
  | "first"
  | "then"
  | "script"
  | "data"
  | "model"
  | "batch"
  | "training"
  | "hardware"
  | "stopping"
  | "scheduling";

export interface Words {
  readonly group: GroupId;
  readonly label: string;
  readonly unit?: string;
  /** The meaning of an empty field whose default is null. */
  readonly empty?: string;
  /** One of its pairs. */
  readonly item?: string;
}

/** The groups that are folded, in their order. */
export const GROUPS: readonly (readonly [id: GroupId, title: string])[] = [
  ["script", "Script"],
  ["data", "Data"],
  ["model", "Model"],
  ["batch", "Batch and rate"],
  ["training", "Training"],
  ["hardware", "Hardware"],
  ["stopping", "Stopping and checkpoints"],
  ["scheduling", "Scheduling"],
];

/** Why a group has no fields. */
export const WITHOUT_FIELDS: Readonly<Partial<Record<GroupId, string>>> = {
  data: "nothing to set, as the script gets no dataset",
  model: "nothing to set, as a script builds its own model",
};

const WORDS: Readonly<Partial<Record<Path, Words>>> = {
  "dataset.source": { group: "first", label: "Dataset" },
  batch_size: { group: "first", label: "Batch size" },
  learning_rate: { group: "first", label: "Learning rate" },
  gpus: { group: "first", label: "GPUs" },

  "model.name": { group: "then", label: "Model" },
  epochs: { group: "then", label: "Epochs" },
  name: { group: "then", label: "Name" },
  labels: { group: "then", label: "Labels", item: "label" },

  code: { group: "script", label: "Code", empty: "none: Hora's own loop trains" },
  command: { group: "script", label: "Command" },
  params: { group: "script", label: "Parameters" },
  env: { group: "script", label: "Variables", item: "variable" },
  environment: { group: "script", label: "Environment" },
  requirements: { group: "script", label: "Requirements" },

  "dataset.validation": { group: "data", label: "Validation" },
  "dataset.fraction": { group: "data", label: "Fraction" },
  "dataset.samples": { group: "data", label: "Samples", empty: "as many as the fraction says" },
  "dataset.balance": { group: "data", label: "Equal classes" },
  "dataset.image_size": { group: "data", label: "Image size", unit: "height × width", empty: "as they are" },
  "dataset.augment": { group: "data", label: "Augmentation" },
  "dataset.augment_mode": { group: "data", label: "Variants" },
  "dataset.format": { group: "data", label: "Format" },
  "dataset.label": { group: "data", label: "Label column" },
  "dataset.text": { group: "data", label: "Text column", empty: "the column of strings" },
  "dataset.text_length": { group: "data", label: "Text length", unit: "words" },
  "dataset.vocabulary": { group: "data", label: "Vocabulary", unit: "words" },
  "dataset.sharding": { group: "data", label: "Sharding" },
  "dataset.shuffle_buffer": { group: "data", label: "Shuffle buffer", unit: "samples" },
  "dataset.cache": { group: "data", label: "Cache" },
  "dataset.cache_limit_gb": { group: "data", label: "Cache limit", unit: "GB" },

  "model.weights": { group: "model", label: "Weights" },
  "model.freeze_base": { group: "model", label: "Freeze the base" },
  "model.dropout": { group: "model", label: "Dropout" },

  batch_per: { group: "batch", label: "Batch of" },
  lr_scaling: { group: "batch", label: "Rate scaling" },
  base_batch: { group: "batch", label: "Base batch", unit: "samples", empty: "the batch of one GPU" },
  warmup_epochs: { group: "batch", label: "Warm-up", unit: "epochs" },
  accumulate: { group: "batch", label: "Accumulate", unit: "batches" },
  "schedule.name": { group: "batch", label: "Schedule" },
  "schedule.final": { group: "batch", label: "Cosine: final share", empty: "0" },
  "schedule.epochs": { group: "batch", label: "Steps: after epochs", empty: "none" },
  "schedule.factor": { group: "batch", label: "Schedule's factor", empty: "0.1" },
  "schedule.monitor": { group: "batch", label: "Plateau: monitor", empty: "what decides which epoch is best" },
  "schedule.patience": { group: "batch", label: "Plateau: patience", unit: "epochs", empty: "2" },
  "schedule.min_delta": { group: "batch", label: "Plateau: minimum improvement", empty: "0.001" },
  "schedule.least": { group: "batch", label: "Plateau: least rate", empty: "0" },
  probe: { group: "batch", label: "Batch probe" },
  "probe.smallest": { group: "batch", label: "Smallest batch", unit: "samples" },
  "probe.largest": { group: "batch", label: "Largest batch", unit: "samples" },
  "probe.seconds": { group: "batch", label: "Time per batch", unit: "s" },

  "optimizer.name": { group: "training", label: "Optimizer" },
  "optimizer.momentum": { group: "training", label: "Momentum", empty: "0.9" },
  "optimizer.nesterov": { group: "training", label: "Nesterov" },
  "optimizer.beta_1": { group: "training", label: "Beta 1", empty: "0.9" },
  "optimizer.beta_2": { group: "training", label: "Beta 2", empty: "0.999" },
  "optimizer.epsilon": { group: "training", label: "Epsilon", empty: "1e-7" },
  weight_decay: { group: "training", label: "Weight decay", empty: "by the optimizer" },
  clip_norm: { group: "training", label: "Clip norm", empty: "any length" },
  label_smoothing: { group: "training", label: "Label smoothing" },
  class_weights: { group: "training", label: "Class weights", empty: "all 1" },
  precision: { group: "training", label: "Precision" },
  goal: { group: "training", label: "Goal" },
  "goal.metric": { group: "training", label: "Goal's metric" },
  "goal.mode": { group: "training", label: "Goal's better values", empty: "as its name says" },
  continue_from: { group: "training", label: "Continue from", empty: "none, it begins anew" },
  steps_per_epoch: { group: "training", label: "Steps per epoch", empty: "as many as the data has" },
  validation_steps: { group: "training", label: "Validation steps", empty: "the whole validation part" },
  seed: { group: "training", label: "Seed" },

  device: { group: "hardware", label: "Device" },
  placement: { group: "hardware", label: "Placement" },
  strategy: { group: "hardware", label: "Strategy" },
  min_gpus: { group: "hardware", label: "Minimum GPUs", empty: "as many as GPUs" },

  early_stopping: { group: "stopping", label: "Early stopping" },
  "early_stopping.monitor": { group: "stopping", label: "Monitor" },
  "early_stopping.patience": { group: "stopping", label: "Patience", unit: "epochs" },
  "early_stopping.min_delta": { group: "stopping", label: "Minimum improvement" },
  "early_stopping.restore_best_weights": { group: "stopping", label: "Keep the best weights" },
  "checkpoint.every_epochs": { group: "stopping", label: "Checkpoint every", unit: "epochs" },
  "checkpoint.keep": { group: "stopping", label: "Checkpoints to keep" },
  max_restarts: { group: "stopping", label: "Maximum restarts" },
  time_limit_s: { group: "stopping", label: "Time limit", unit: "s", empty: "none" },
  stall_timeout_s: { group: "stopping", label: "Stalled after", unit: "s" },

  project: { group: "scheduling", label: "Project" },
  priority: { group: "scheduling", label: "Priority" },
};

const DOTTED: Readonly<Record<string, Words>> = WORDS;
const GROUP_OF_PART: Readonly<Record<string, GroupId>> = {
  dataset: "data",
  model: "model",
  probe: "batch",
  early_stopping: "stopping",
  checkpoint: "stopping",
  goal: "training",
  schedule: "batch",
  optimizer: "training",
};

/** The words of a field. A field that is not above gets its name as label, in the group of its part. */
export function wordsOf(path: string): Words {
  const [part = "", name = part] = path.split(".");
  const label = name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");
  return DOTTED[path] ?? { group: GROUP_OF_PART[part] ?? "scheduling", label };
}

/** A field's position in the form. */
export function position(path: string): number {
  const found = ORDER.indexOf(path);
  return found < 0 ? ORDER.length : found;
}

const ORDER: readonly string[] = Object.keys(WORDS);
