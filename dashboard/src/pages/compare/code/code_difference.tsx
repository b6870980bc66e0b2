// How the code of two of the compared runs differs, file by file. Which two is in the address.

import { usePolled } from "../../../api/polled.ts";
import type { CodeDifference } from "../../../api/types.ts";
import { Waiting } from "../../../parts/notice.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { param } from "../../../url.ts";
import type { Run } from "../runs.ts";
import styles from "./code_difference.module.css";

const beforeParam = param("code_from");
const afterParam = param("code_to");

/** Nothing unless at least two of the runs are scripts with different code. */
export function CodePanel({ runs }: { runs: readonly Run[] }) {
  const scripts = runs.filter(({ job }) => job.code !== null);
  const chosen = (id: string): Run | undefined => scripts.find((run) => run.id === id);
  const before = chosen(beforeParam.value) ?? scripts[0];
  const after = chosen(afterParam.value) ?? scripts.find(({ job }) => job.code !== before?.job.code);
  if (before === undefined || after === undefined) return null;
  const tools = (
    <>
      <Choice text="From" run={before} scripts={scripts} onChange={beforeParam.set} />
      <Choice text="to" run={after} scripts={scripts} onChange={afterParam.set} />
    </>
  );
  return (
    <Panel title="Difference of code" flush tools={tools}>
      <Files key={before.id + after.id} before={before.job.code as string} after={after.job.code as string} />
    </Panel>
  );
}

interface ChoiceProps {
  text: string;
  run: Run;
  scripts: readonly Run[];
  onChange: (id: string) => void;
}

function Choice({ text, run, scripts, onChange }: ChoiceProps) {
  return (
    <label class={styles["choice"]}>
      {text}
      <select value={run.id} onChange={(event) => onChange(event.currentTarget.value)}>
        {scripts.map(({ id, number, label }) => (
          <option key={id} value={id}>
            {number} {label}
          </option>
        ))}
      </select>
    </label>
  );
}

function Files({ before, after }: { before: string; after: string }) {
  const path = before === after ? null : `/v1/code/${before}/diff/${after}`;
  const { data, problem } = usePolled<CodeDifference>(path, { every_s: Number.POSITIVE_INFINITY });
  if (path === null) return <p class={styles["none"]}>Both ran the same code.</p>;
  if (data === undefined) return <Waiting problem={problem} subject="the difference" />;
  return (
    <>
      {data.files.map(({ path, change, hunks }) => (
        <details key={path} class={styles["file"]} open={data.files.length <= 10}>
          <summary>
            <code>{path}</code> <span class="muted">{change}</span>
          </summary>
          <pre tabIndex={0} role="region" aria-label={`Changes of ${path}`}>
            {hunks === null
              ? "No text, or too long."
              : hunks.split("\n").map((line, index) => (
                  <div key={index} class={styles[KINDS[line[0] as string] ?? ""]}>
                    {line || " "}
                  </div>
                ))}
          </pre>
        </details>
      ))}
    </>
  );
}

const KINDS: Readonly<Record<string, string>> = { "+": "added", "-": "removed", "@": "place" };
