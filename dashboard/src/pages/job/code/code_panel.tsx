// The files of a script's code as a tree, and the text of one of them. Its path is in the address.

import { usePolled } from "../../../api/polled.ts";
import type { Code, Job } from "../../../api/types.ts";
import { bytes, countText } from "../../../format.ts";
import { Waiting } from "../../../parts/notice.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { withParams } from "../../../query.ts";
import { param, query } from "../../../url.ts";
import styles from "./code.module.css";
import { FileText } from "./file_text.tsx";

const fileParam = param("file");

export function CodePanel({ job }: { job: Job }) {
  const digest = job.code as string;
  const { data, problem } = usePolled<Code>(`/v1/code/${digest}`, { every_s: Number.POSITIVE_INFINITY });
  if (data === undefined) return <Waiting problem={problem} subject="the files" />;
  const paths = data.files.map(({ path }) => path);
  const command = (job.spec["command"] as string[] | null) ?? [];
  const path = fileParam.value || (command.find((word) => paths.includes(word)) ?? (paths[0] as string));
  const tools = (
    <>
      <span class="muted">
        {countText(paths.length, "file")}, {bytes(data.size_bytes)}
      </span>
      <a href={`/v1/code/${digest}/archive`} download={`code-${digest.slice(0, 12)}`}>
        Download
      </a>
    </>
  );
  return (
    <Panel title="Code" flush tools={tools}>
      <div class={styles["code"]}>
        <nav class={styles["tree"]} aria-label="Files of the code">
          <Folder above="" paths={paths} shown={path} />
        </nav>
        <FileText key={path} above={`/v1/code/${digest}/files`} path={path} />
      </div>
    </Panel>
  );
}

/** What is in a folder; `above` is its path with a slash at the end, with which all `paths` begin. */
function Folder({ above, paths, shown }: { above: string; paths: readonly string[]; shown: string }) {
  const byName = new Map<string, string[]>();
  for (const path of paths) {
    const name = path.slice(above.length).split("/")[0] as string;
    const below = byName.get(name);
    if (below === undefined) byName.set(name, [path]);
    else below.push(path);
  }
  return (
    <ul>
      {[...byName].map(([name, below]) => (
        <li key={name}>
          {below[0] === above + name ? (
            <a
              href={`?${withParams(query.value, { file: above + name })}`}
              aria-current={below[0] === shown ? "true" : undefined}
            >
              {name}
            </a>
          ) : (
            <details open>
              <summary>{name}/</summary>
              <Folder above={`${above}${name}/`} paths={below} shown={shown} />
            </details>
          )}
        </li>
      ))}
    </ul>
  );
}
