// What the form calls each field of a spec, and where it stands. Kinds, defaults and limits are the schema's own.
// A field that the spec has and this does not is a type error.

import type { components } from "../../api/schema.d.ts";

type Schemas = components["schemas"];
type Part = "dataset" | "model" | "checkpoint";
export type Path =
  | Exclude<keyof Schemas["Spec"], Part>
  | `dataset.${keyof Schemas["DatasetSpec"]}`
  | `model.${keyof Schemas["ModelSpec"]}`
  | `early_stopping.${keyof Schemas["EarlyStopping"]}`
  | `checkpoint.${keyof Schemas["CheckpointSpec"]}`
  | `probe.${keyof Schemas["ProbeSpec"]}`;

export type GroupId =
  | "first"
  | "then"
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
  readonly says: string;
  readonly unit?: string;
  /** What holds where nothing is given, for fields whose default is null. */
  readonly empty?: string;
}

/** The groups that are folded, in their order. */
export const GROUPS: readonly (readonly [id: GroupId, title: string])[] = [
  ["data", "Data"],
  ["model", "Model"],
  ["batch", "Batch and rate"],
  ["training", "Training"],
  ["hardware", "Hardware"],
  ["stopping", "Stopping and checkpoints"],
  ["scheduling", "Scheduling"],
];

export const WORDS: Readonly<Record<Path, Words>> = {
  "dataset.source": {
    group: "first",
    label: "Dataset",
    says: "A registered name, a version of it (chips@3), a path or URL below the data roots, or made-up data (synthetic:…).",
  },
  batch_size: {
    group: "first",
    label: "Batch size",
    says: "Samples of one step, of each GPU or of all.",
  },
  learning_rate: { group: "first", label: "Learning rate", says: "The rate before scaling." },
  gpus: {
    group: "first",
    label: "GPUs",
    says: "One rank per GPU, or per CPU slot where there are no GPUs.",
  },

  "model.name": { group: "then", label: "Model", says: "A network of the zoo, or module:function." },
  epochs: {
    group: "then",
    label: "Epochs",
    says: "The most passes over the data; early stopping usually ends before.",
  },
  name: { group: "then", label: "Name", says: "What lists show." },
  labels: { group: "then", label: "Labels", says: "Pairs to find jobs by." },

  "dataset.validation": {
    group: "data",
    label: "Validation",
    says: "A share of the training data, or another source. A validation part that the data has of its own takes the place of a share.",
  },
  "dataset.fraction": {
    group: "data",
    label: "Fraction",
    says: "The share of the training part to use, the same samples on every rank.",
  },
  "dataset.image_size": {
    group: "data",
    label: "Image size",
    unit: "height × width",
    empty: "as they are",
    says: "What images are brought to. Without it all have to be of one size.",
  },
  "dataset.augment": {
    group: "data",
    label: "Augmentation",
    says: "Variants that training images also come in; an epoch has no more steps.",
  },
  "dataset.format": { group: "data", label: "Format", says: "How the data is stored; auto looks." },
  "dataset.label": { group: "data", label: "Label column", says: "The column of the label, in Parquet." },
  "dataset.sharding": {
    group: "data",
    label: "Sharding",
    says: "shard: each rank takes its part of an epoch. steps: each draws from all, and makes its share of the steps.",
  },
  "dataset.shuffle_buffer": {
    group: "data",
    label: "Shuffle buffer",
    unit: "samples",
    says: "Shuffled together where data is streamed.",
  },
  "dataset.cache": {
    group: "data",
    label: "Cache",
    says: "memory: decoded samples, shared by the ranks of a host. disk: raw files, kept for all jobs.",
  },
  "dataset.cache_limit_gb": {
    group: "data",
    label: "Cache limit",
    unit: "GB",
    says: "The most that the cache may take.",
  },

  "model.weights": {
    group: "model",
    label: "Weights",
    says: "Where they start: none, imagenet, a path, or job:ID.",
  },
  "model.freeze_base": {
    group: "model",
    label: "Freeze the base",
    says: "All but the last layer stays as it was loaded. Without loaded weights nothing is frozen.",
  },
  "model.dropout": {
    group: "model",
    label: "Dropout",
    says: "The share of activations dropped in training, before the last layer.",
  },

  batch_per: { group: "batch", label: "Batch of", says: "Whose batch it is: of each GPU, or of all together." },
  lr_scaling: {
    group: "batch",
    label: "Rate scaling",
    says: "How the rate grows with global batch / base batch: as it (linear), its square root, or its power of 2/3.",
  },
  base_batch: {
    group: "batch",
    label: "Base batch",
    unit: "samples",
    empty: "the batch of one GPU",
    says: "The batch that the learning rate was found with.",
  },
  warmup_epochs: {
    group: "batch",
    label: "Warm-up",
    unit: "epochs",
    says: "Over which the rate climbs to its scaled value.",
  },
  probe: {
    group: "batch",
    label: "Batch probe",
    says: "Try doubling batches for a moment each instead of training: where throughput stops growing, and what fits.",
  },
  "probe.smallest": {
    group: "batch",
    label: "Smallest batch",
    unit: "samples",
    says: "The first batch of one GPU to try.",
  },
  "probe.largest": { group: "batch", label: "Largest batch", unit: "samples", says: "No batch beyond this is tried." },
  "probe.seconds": {
    group: "batch",
    label: "Time of each batch",
    unit: "s",
    says: "For about how long its steps are timed.",
  },

  optimizer: { group: "training", label: "Optimizer", says: "sgd has a momentum of 0.9." },
  precision: {
    group: "training",
    label: "Precision",
    says: "Of the computation; weights stay in float32.",
  },
  steps_per_epoch: {
    group: "training",
    label: "Steps of an epoch",
    empty: "as many as the data has",
    says: "Steps that count as an epoch.",
  },
  seed: { group: "training", label: "Seed", says: "Of the first weights, the split and the order of every epoch." },

  device: {
    group: "hardware",
    label: "Device",
    says: "Only hosts with GPUs, or only CPU slots; auto takes GPUs where they are.",
  },
  placement: {
    group: "hardware",
    label: "Placement",
    says: "pack: the fewest hosts that have room. single_host: always one. spread: as many as it can.",
  },
  min_gpus: {
    group: "hardware",
    label: "Fewest GPUs",
    empty: "as many as GPUs",
    says: "With how few a restart may make do when hosts were lost.",
  },

  early_stopping: { group: "stopping", label: "Early stopping", says: "Stop when more epochs do not help." },
  "early_stopping.monitor": {
    group: "stopping",
    label: "Monitor",
    says: "The metric to watch, averaged over all ranks.",
  },
  "early_stopping.patience": {
    group: "stopping",
    label: "Patience",
    unit: "epochs",
    says: "Without an improvement, before training ends.",
  },
  "early_stopping.min_delta": { group: "stopping", label: "Least improvement", says: "What counts as one." },
  "early_stopping.restore_best_weights": {
    group: "stopping",
    label: "Keep the best weights",
    says: "End with the weights of the best epoch instead of the last.",
  },
  "checkpoint.every_epochs": {
    group: "stopping",
    label: "Checkpoint every",
    unit: "epochs",
    says: "What a restart goes on from is saved this often.",
  },
  "checkpoint.keep": { group: "stopping", label: "Checkpoints to keep", says: "Complete ones." },
  max_restarts: {
    group: "stopping",
    label: "Most restarts",
    says: "After failures of its own; a lost host, a pause or making room does not count.",
  },
  time_limit_s: {
    group: "stopping",
    label: "Time limit",
    unit: "s",
    empty: "none",
    says: "Of an attempt. A short job with one may use slots that are kept for a larger one.",
  },
  stall_timeout_s: {
    group: "stopping",
    label: "Stalled after",
    unit: "s",
    says: "Without a step of any rank an attempt counts as stalled.",
  },

  project: { group: "scheduling", label: "Project", says: "What it is counted under; its quotas hold." },
  priority: {
    group: "scheduling",
    label: "Priority",
    says: "The queue goes by priority, then age. A higher one may ask lower ones that run to save and wait.",
  },
};

const DOTTED: Readonly<Record<string, Words>> = WORDS;

/** The words of a field; of one that the page does not know, its name among the last group. */
export function wordsOf(path: string): Words {
  return DOTTED[path] ?? { group: "scheduling", label: path, says: "" };
}

/** A field's position among all, as they stand in the form. */
export function position(path: string): number {
  const found = ORDER.indexOf(path);
  return found < 0 ? ORDER.length : found;
}

const ORDER: readonly string[] = Object.keys(WORDS);
