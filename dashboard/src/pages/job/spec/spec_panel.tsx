// The spec of a job with its defaults, its plan and its data.

import { usePolled } from "../../../api/polled.ts";
import type { Attempt, Job } from "../../../api/types.ts";
import { finder } from "../../../find.ts";
import { number } from "../../../format.ts";
import { Choice } from "../../../parts/choice.tsx";
import { Find } from "../../../parts/find.tsx";
import { Waiting } from "../../../parts/notice.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { param } from "../../../url.ts";
import { CopyButton } from "../copy_button.tsx";
import { RowsTable } from "../rows_table.tsx";
import { changesOf, type Field, fieldsOf, type Json, type Schemas } from "./fields.ts";
import styles from "./spec.module.css";
import { yamlOf } from "./yaml.ts";

const fieldsParam = param("spec", "all");
const findParam = param("find_field");
const FIELDS = [
  ["all", "All fields"],
  ["changed", "Changed"],
] as const;

/** `attempt` is the newest one. */
export function SpecPanels({ job, attempt }: { job: Job; attempt: Attempt | undefined }) {
  const { data, problem } = usePolled<{ components: { schemas: Schemas } }>("/openapi.json", {
    every_s: Number.POSITIVE_INFINITY,
  });
  if (data === undefined && problem === undefined) return <Waiting problem={problem} subject="the defaults" />;
  return (
    <div class={styles["panels"]}>
      {data === undefined ? (
        <Waiting problem={problem} subject="the defaults" />
      ) : (
        <SpecPanel job={job} fields={fieldsOf(job.spec as Record<string, Json>, data.components.schemas)} />
      )}
      <div class={styles["stack"]}>
        <PlanPanel job={job} />
        <DataPanel job={job} />
        {attempt !== undefined && <MachinesPanel attempt={attempt} />}
      </div>
    </div>
  );
}

function SpecPanel({ job, fields }: { job: Job; fields: readonly Field[] }) {
  const isOnlyChanged = fieldsParam.value === "changed";
  const isFound = finder(findParam.value);
  const rows = fields.filter(
    ({ path, value, isChanged }) => (isChanged || !isOnlyChanged) && (isFound(path) || isFound(valueText(value))),
  );
  const spec = isOnlyChanged ? changesOf(fields) : (job.spec as Record<string, Json>);
  const tools = (
    <>
      <Find label="Find fields" text={findParam} />
      <Choice label="Which fields" value={fieldsParam.value} options={FIELDS} onChange={fieldsParam.set} />
      <CopyButton text={() => yamlOf(spec)} label="Copy these fields as YAML, for hora submit">
        Copy YAML
      </CopyButton>
      <CopyButton
        text={() => JSON.stringify(spec, null, 2)}
        label="Copy these fields as JSON, for hora submit or the API"
      >
        Copy JSON
      </CopyButton>
    </>
  );
  return (
    <Panel title="Spec" flush tools={tools}>
      <RowsTable
        label="Fields of the spec"
        rows={rows}
        keyOf={({ path }) => path}
        columns={[
          { name: "Field", cell: ({ path }) => <code>{path}</code> },
          {
            name: "Value",
            cell: ({ value, isChanged, defaultValue }) => (
              <Value value={value} isChanged={isChanged && defaultValue !== undefined} />
            ),
          },
          {
            name: "Default",
            cell: ({ defaultValue, isChanged }) => (
              <span class="muted">
                {defaultValue === undefined ? "–" : isChanged ? valueText(defaultValue) : "same"}
              </span>
            ),
          },
        ]}
      />
    </Panel>
  );
}

function Value({ value, isChanged }: { value: Json; isChanged: boolean }) {
  if (!isChanged) return <span class={styles["value"]}>{valueText(value)}</span>;
  return (
    <strong class={styles["value"]}>
      {valueText(value)} <span class={styles["changed"]}>changed</span>
    </strong>
  );
}

/** A value as people write it in a spec. */
function valueText(value: Json): string {
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return value;
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    const entries = Object.entries(value);
    return entries.length === 0 ? "none" : entries.map(([key, one]) => `${key}: ${valueText(one)}`).join(", ");
  }
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map(itemText).join(", ");
  return value === null ? "null" : String(value);
}

/** An item of a list; the braces of an object keep its fields together. */
function itemText(item: Json): string {
  return typeof item === "object" && item !== null ? `{${valueText(item)}}` : valueText(item);
}

const PLAN: readonly (readonly [key: string, name: string])[] = [
  ["gpus", "Ranks"],
  ["per_gpu_batch", "Batch per GPU"],
  ["global_batch", "Global batch"],
  ["base_batch", "Base batch of the learning rate"],
  ["base_learning_rate", "Learning rate before scaling"],
  ["lr_factor", "Factor of the scaling"],
  ["learning_rate", "Learning rate"],
  ["warmup_epochs", "Epochs of warm-up"],
  ["epochs", "Maximum epochs"],
  ["steps_per_epoch", "Steps per epoch"],
  ["validation_steps", "Steps of a validation"],
  ["train_samples", "Samples to train on"],
  ["validation_samples", "Samples to validate on"],
  ["test_samples", "Samples to test on"],
];

function PlanPanel({ job }: { job: Job }) {
  const plan = job.plan as Record<string, number | null | undefined>;
  return (
    <Panel title="Plan" flush>
      <RowsTable
        label="Figures of the plan"
        rows={PLAN}
        keyOf={([key]) => key}
        columns={[
          { name: "Figure", cell: ([, name]) => name },
          { name: "Value", isFigure: true, cell: ([key]) => number(plan[key]) },
        ]}
      />
    </Panel>
  );
}

function DataPanel({ job: { dataset, dataset_version: version } }: { job: Job }) {
  if (dataset === null) return null;
  const rows: [string, string][] = [
    ["Format", dataset.format],
    ["Shape of a sample", dataset.shape.join(" × ")],
    dataset.targets > 0
      ? ["Targets", number(dataset.targets)]
      : ["Classes", dataset.classes === null ? "–" : number(dataset.classes.length)],
    ["Training samples", number(dataset.train)],
    ["Validation samples", number(dataset.validation)],
    ["Test samples", number(dataset.test)],
  ];
  if (dataset.words != null) rows.splice(2, 0, ["Vocabulary", `${number(dataset.words)} words`]);
  if (version != null) rows.unshift(["Registered as", `${version.name}@${version.version}`]);
  if (dataset.damaged > 0)
    rows.push(["Damaged, left out", `${number(dataset.damaged)}: ${dataset.damaged_files.join(", ")}`]);
  for (const warning of dataset.warnings ?? []) rows.push(["Warning", warning]);
  return (
    <Panel title="Data" flush>
      <RowsTable
        label="Facts about the data"
        rows={rows}
        keyOf={([name]) => name}
        columns={[
          { name: "Figure", cell: ([name]) => name },
          { name: "Value", isFigure: true, cell: ([, value]) => <span class={styles["value"]}>{value}</span> },
        ]}
      />
    </Panel>
  );
}

/** Where the attempt ran: its hosts, their devices, and the versions of what they had then. */
function MachinesPanel({ attempt: { number: count, shares } }: { attempt: Attempt }) {
  const rows = shares.flatMap(({ host, slots, devices, software }) => [
    ["Host", host],
    [`Slots ${slots.join(", ")}`, [...new Set(devices)].join(", ") || "–"],
    ...Object.entries(software ?? {}),
  ]);
  return (
    <Panel title={`Machines of attempt ${count}`} flush>
      <RowsTable
        label="Facts about the machines"
        rows={rows.map(([name, value], index) => ({ name, value, index }))}
        keyOf={({ index }) => index}
        columns={[
          { name: "Fact", cell: ({ name }) => name },
          { name: "Value", isFigure: true, cell: ({ value }) => <span class={styles["value"]}>{value}</span> },
        ]}
      />
    </Panel>
  );
}
