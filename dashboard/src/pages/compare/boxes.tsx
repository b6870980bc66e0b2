// Box plots of a result or a setting: how the runs of each group are distributed.

import { BoxChart } from "../../charts/box_chart.tsx";
import { Panel } from "../../parts/panel.tsx";
import { axisOf, scalesNow } from "./axes.ts";
import { pointedIds } from "./coordinates.tsx";
import { AxisChoice } from "./field_choice.tsx";
import { type Field, fieldOf, lastAmong, resultsAtFirst } from "./fields.ts";
import { focused, pin, point } from "./focus.ts";
import { CELL, type Group } from "./groups.ts";
import { boxParam, groupParam } from "./view.ts";

interface Props {
  groups: readonly Group[];
  /** Ids of runs that are drawn faintly: these do not count. */
  faded: ReadonlySet<string>;
  settings: readonly Field[];
  results: readonly Field[];
}

export function Boxes({ groups, faded, settings, results }: Props) {
  const runs = groups.flatMap((group) => group.runs).filter(({ id, isHidden }) => !isHidden && !faded.has(id));
  const all = [...results, ...lastAmong(runs.map(({ job }) => job)), ...settings];
  const fields = all.filter(({ valueIn }) => runs.some(({ job }) => typeof valueIn(job) === "number"));
  const field = fields.find(({ key }) => key === boxParam.value) ?? resultsAtFirst(fields)[0] ?? fields[0];
  if (field === undefined) return null;
  const axis = axisOf(field, runs, scalesNow().get(field.key));
  return (
    <Panel title="Box plots" tools={<AxisChoice label="Of" axis={axis} fields={fields} onChange={boxParam.set} />}>
      <BoxChart
        title="Box plots"
        xName={groupParam.value === CELL ? "study cell" : fieldOf(groupParam.value).label}
        yName={field.label}
        isLog={axis.isLog}
        groups={groups.map((group) => ({
          ...group,
          points: runs.flatMap(({ id, group: key, number, job }) => {
            const value = field.valueIn(job);
            return key === group.key && typeof value === "number"
              ? [{ key: id, name: `${number} ${job.name}`, value }]
              : [];
          }),
        }))}
        format={field.format}
        pointed={pointedIds(runs, focused.value)}
        onPoint={point}
        onPick={pin}
      />
    </Panel>
  );
}
