// A bar for each run, or the mean of each group, in one result: the best on top.

import { BarRows } from "../../charts/bar_rows.tsx";
import { Panel } from "../../parts/panel.tsx";
import { FieldChoice } from "./field_choice.tsx";
import { type Field, lastAmong, resultsAtFirst } from "./fields.ts";
import { focused, pin, point } from "./focus.ts";
import type { Group } from "./groups.ts";
import styles from "./page.module.css";
import { ranked } from "./ranked.ts";
import type { Run } from "./runs.ts";
import { barParam } from "./view.ts";

interface Props {
  runs: readonly Run[];
  groups: readonly Group[];
  /** Ids of runs that are drawn faintly: these do not count. */
  faded: ReadonlySet<string>;
  results: readonly Field[];
}

const MOST = 30; // bars

export function RunBars({ runs, groups, faded, results }: Props) {
  const counted = runs.filter(({ id, isHidden }) => !isHidden && !faded.has(id));
  const fields = [...results, ...lastAmong(counted.map(({ job }) => job))];
  const field = fields.find(({ key }) => key === barParam.value) ?? resultsAtFirst(fields)[0] ?? fields[0];
  if (field === undefined) return null;
  const rows = ranked(counted, groups, field);
  const isGroup = groups.length > 0;
  const ofRun = isGroup ? counted.find(({ id }) => id === focused.value)?.group : null;
  const focus = ofRun ?? focused.value;
  return (
    <Panel title="Bars" tools={<FieldChoice label="Of" value={field.key} fields={fields} onChange={barParam.set} />}>
      {rows.length === 0 ? (
        <p class="muted">No run has this result.</p>
      ) : (
        <BarRows
          title="Bars"
          xName={isGroup ? `${field.label}, mean of each group` : field.label}
          rowName={isGroup ? "group" : "run"}
          rows={rows.slice(0, MOST)}
          format={field.format}
          pointed={focus === null ? [] : [focus]}
          onPoint={point}
          onPick={pin}
        />
      )}
      {rows.length > MOST && (
        <p class={styles["explanation"]}>
          The first {MOST} of {rows.length} {isGroup ? "groups" : "runs"}.
        </p>
      )}
    </Panel>
  );
}
