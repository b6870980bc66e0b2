// The learning curves of a study: for each metric a chart with the mean of each cell, and the range of its repeats.

import { useState } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { StudyCurves, StudyReport } from "../../api/types.ts";
import { Plot } from "../../charts/plot.tsx";
import { useScope } from "../../charts/use_scope.ts";
import { Zoom } from "../../charts/zoom.tsx";
import { fileStem } from "../../format.ts";
import { isShare, metricText } from "../../metrics.ts";
import { ProblemNotice } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { curveLines } from "./curve_lines.ts";
import styles from "./curves.module.css";

interface Props {
  report: StudyReport;
  /** The time between two polls, as that of the report. */
  every_s: number;
}

export function Curves({ report, every_s }: Props) {
  const { data, problem } = usePolled<StudyCurves>(`/v1/studies/${report.study_id}/curves`, { every_s });
  const scope = useScope();
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const curves = data?.curves ?? [];
  if (curves.length === 0) return problem ? <ProblemNotice problem={problem} /> : null;
  const toggle = (key: string): void => {
    const next = new Set(hidden);
    if (!next.delete(key)) next.add(key);
    setHidden(next);
  };
  return (
    <Panel title="Learning curves" tools={<Zoom scope={scope} unitX="tens" />}>
      <p class={styles["explanation"]}>
        A line is the mean of a cell's runs over the epochs that all of them have.{" "}
        {report.repeats > 1 &&
          "The shaded area is from the lowest to the highest run; more than eight lines have none. "}
        <a href={`/compare?study=${report.study_id}`}>Compare single runs</a>
      </p>
      <div class={styles["charts"]}>
        {curves.map(({ metric, cells }) => (
          <Plot
            key={metric}
            title={metricText(metric)}
            fileName={`${fileStem(report.name)}-${fileStem(metric)}`}
            isShare={isShare(metric)}
            lines={curveLines(report, cells, hidden)}
            scope={scope}
            xName="epoch"
            hidden={hidden}
            onToggle={toggle}
            height={230}
          />
        ))}
      </div>
    </Panel>
  );
}
