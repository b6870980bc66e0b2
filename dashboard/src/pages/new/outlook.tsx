// The preview of a draft: its plan, its quote and its warnings.

import type { Plan, Preview } from "../../api/types.ts";
import { number } from "../../format.ts";
import { Notice } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import styles from "./outlook.module.css";
import type { Previewed } from "./preview.ts";
import { Expected } from "./quote.tsx";

export function Outlook({ previewed, mayAsk }: { previewed: Previewed<Preview>; mayAsk: boolean }) {
  const { preview, problem, isPending } = previewed;
  return (
    <div class={styles["outlook"]} data-old={isPending || problem !== undefined} aria-busy={isPending}>
      <Panel title="Plan" tools={<State previewed={previewed} />}>
        {preview === undefined ? <p class="muted">{instead(mayAsk, previewed)}</p> : <Figures preview={preview} />}
      </Panel>
      {preview !== undefined && (
        <>
          <Warnings preview={preview} />
          <Expected quote={preview.quote} />
        </>
      )}
    </div>
  );
}

function instead(mayAsk: boolean, { problem, isPending }: Previewed<Preview>): string {
  if (!mayAsk) return "To see a plan, you need a token with the scope submit.";
  if (problem !== undefined) return "Correct the fields to see a plan.";
  return isPending ? "Calculating…" : "Choose a dataset to see what would run. A script needs its code.";
}

function State({ previewed: { preview, problem, isPending } }: { previewed: Previewed<Preview> }) {
  if (preview === undefined || (problem === undefined && !isPending)) return null;
  return <span class={styles["state"]}>{isPending ? "calculating…" : "from the last valid fields"}</span>;
}

export function Warnings({ preview: { warnings } }: { preview: Pick<Preview, "warnings"> }) {
  if (warnings === undefined || warnings.length === 0) return null;
  return (
    <Notice
      kind="warn"
      title={warnings.length === 1 ? "A warning before you submit" : `${warnings.length} warnings before you submit`}
    >
      <ul class={styles["warnings"]}>
        {warnings.map((warning) => (
          <li key={warning}>{sentence(warning)}</li>
        ))}
      </ul>
    </Notice>
  );
}

function Figures({ preview: { plan, spec } }: { preview: Preview }) {
  const isOfScript = spec.code != null;
  const { gpus, per_gpu_batch, global_batch, base_learning_rate, lr_factor, learning_rate } = plan;
  return (
    <dl class={styles["figures"]}>
      <Figure
        name="Global batch"
        value={number(global_batch)}
        how={`${gpus} × ${number(per_gpu_batch)} of ${gpus === 1 ? "one GPU" : "each GPU"}`}
      />
      <Figure
        name="Learning rate"
        value={number(learning_rate)}
        how={lr_factor === 1 ? "not scaled" : `${number(base_learning_rate)} × ${number(lr_factor)}`}
      />
      <Figure
        name="Steps per epoch"
        value={number(plan.steps_per_epoch)}
        how={isOfScript ? "for the script to read" : samples(plan.train_samples, "train")}
      />
      <Figure
        name="Maximum epochs"
        value={number(plan.epochs)}
        how={plan.warmup_epochs > 0 ? `${plan.warmup_epochs} of warm-up` : "no warm-up"}
      />
      {!isOfScript && <DataFigures plan={plan} />}
    </dl>
  );
}

function DataFigures({ plan }: { plan: Plan }) {
  return (
    <>
      <Figure
        name="Validation steps"
        value={number(plan.validation_steps)}
        how={samples(plan.validation_samples, "validation")}
      />
      <Figure name="Test samples" value={number(plan.test_samples)} how="used once, at the end" />
    </>
  );
}

function Figure({ name, value, how }: { name: string; value: string; how: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <b>{value}</b>
        <span>{how}</span>
      </dd>
    </div>
  );
}

function samples(count: number | null | undefined, part: string): string {
  return count === null || count === undefined ? "known when the data is opened" : `${number(count)} ${part} samples`;
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
