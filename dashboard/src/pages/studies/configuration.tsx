// What a study was submitted as, to read, and to copy for another one.

import type { Study } from "../../api/types.ts";
import { Panel } from "../../parts/panel.tsx";
import { CopyButton } from "../job/copy_button.tsx";
import type { Json } from "../job/spec/fields.ts";
import { yamlOf } from "../job/spec/yaml.ts";
import styles from "./page.module.css";
import { configurationOf } from "./state.ts";

export function Configuration({ study }: { study: Study }) {
  const configuration = configurationOf(study) as Record<string, Json>;
  const text = yamlOf(configuration);
  const tools = (
    <>
      <a href={`/studies/new?study=${study.id}`}>Clone</a>
      <CopyButton text={() => text} label="Copy the study as YAML, for hora study">
        Copy YAML
      </CopyButton>
      <CopyButton text={() => JSON.stringify(configuration, null, 2)} label="Copy the study as JSON, for the API">
        Copy JSON
      </CopyButton>
    </>
  );
  return (
    <Panel title="Configuration" tools={tools}>
      <pre class={styles["configuration"]} tabIndex={0} role="region" aria-label="Configuration as YAML">
        {text}
      </pre>
    </Panel>
  );
}
