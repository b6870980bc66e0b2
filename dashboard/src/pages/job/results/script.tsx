// What a script runs: its command, its parameters and variables, its environment, and its code.

import type { ComponentChildren } from "preact";
import { usePolled } from "../../../api/polled.ts";
import type { Code, Job } from "../../../api/types.ts";
import { bytes, commandText, countText, moment } from "../../../format.ts";
import { Panel } from "../../../parts/panel.tsx";
import { flatChange } from "../analysis/evidence.ts";
import { CopyButton } from "../copy_button.tsx";
import styles from "./results.module.css";

const ONCE = { every_s: Number.POSITIVE_INFINITY };
/** The labels under which `hora run` notes the state of the folder that it sends. */
const COMMIT = "git.commit";
const DIRTY = "git.dirty";
const BRANCH = "git.branch";

export function ScriptPanel({ job: { spec, labels } }: { job: Job }) {
  const command = commandText((spec["command"] as string[] | null) ?? []);
  const tools = (
    <CopyButton text={() => command} label="Copy the command">
      Copy command
    </CopyButton>
  );
  return (
    <Panel title="Script" tools={tools}>
      <dl class={styles["script"]}>
        <Row name="Command">
          <code>{command}</code>
        </Row>
        <Values name="Parameters" values={flatChange(objectOf(spec["params"]))} />
        <Values
          name="Variables"
          values={Object.entries(objectOf(spec["env"])).map(([key, text]) => [key, String(text)])}
        />
        <Row name="Environment">
          {String(spec["environment"])}
          {spec["requirements"] != null && ` with ${[spec["requirements"]].flat().join(", ")}`}
        </Row>
        {typeof spec["code"] === "string" && <CodeRow digest={spec["code"]} />}
        {labels[COMMIT] !== undefined && (
          <Row name="Git commit">
            <code>{labels[COMMIT]}</code>
            {labels[BRANCH] && ` on ${labels[BRANCH]}`}
            {labels[DIRTY] === "true" && ", with changes that were not committed"}
          </Row>
        )}
      </dl>
    </Panel>
  );
}

function Row({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Values({ name, values }: { name: string; values: readonly (readonly [key: string, text: string])[] }) {
  if (values.length === 0) return null;
  return (
    <Row name={name}>
      <ul>
        {values.map(([key, text]) => (
          <li key={key}>
            {key}: <code>{text}</code>
          </li>
        ))}
      </ul>
    </Row>
  );
}

function CodeRow({ digest }: { digest: string }) {
  const { data, problem } = usePolled<Code>(`/v1/code/${digest}`, ONCE);
  const name = <code title={digest}>{digest.slice(0, 12)}</code>;
  if (problem?.status === 404) return <Row name="Code">{name}, which was removed</Row>;
  return (
    <Row name="Code">
      <a href={`/v1/code/${digest}/archive`} download={`code-${digest.slice(0, 12)}`}>
        Download {name}
      </a>
      {data !== undefined && (
        <span title={`Sent ${moment(data.created_at)}`}>
          {", "}
          <a href="?tab=code">{countText(data.files.length, "file")}</a>, {bytes(data.size_bytes)}
        </span>
      )}
    </Row>
  );
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return (value as Record<string, unknown> | null | undefined) ?? {};
}
