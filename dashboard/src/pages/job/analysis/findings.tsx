// The findings of a job in sentences, and the figures of its steps and slots.

import type { Analysis, Finding } from "../../../api/types.ts";
import { words } from "../../../format.ts";
import { Badge } from "../../../parts/badge.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { figureOf } from "./evidence.ts";
import { Evidence } from "./evidence.tsx";
import { SlotTable, StallTable, StepTable } from "./figures.tsx";
import styles from "./findings.module.css";
import { nothingFound } from "./nothing_found.ts";

const GOOD: readonly Finding["kind"][] = ["compute_bound"];

export function FindingsPanel({ analysis, isScript }: { analysis: Analysis; isScript: boolean }) {
  const { findings, steps, utilization, stalls, imbalances } = analysis;
  return (
    <Panel title="Findings" id="findings">
      <div class={styles["stack"]}>
        {findings.length === 0 ? (
          <p class="muted">{nothingFound(analysis, isScript)}</p>
        ) : (
          <ul class={styles["list"]}>
            {findings.map((finding) => (
              <li key={finding.kind}>
                <p>
                  <Badge tone={GOOD.includes(finding.kind) ? "good" : "warn"} text={words(finding.kind)} />{" "}
                  {finding.text}
                </p>
                <Evidence figures={finding.evidence} />
              </li>
            ))}
          </ul>
        )}
        {imbalances.length > 0 && (
          <ul class={styles["list"]}>
            {imbalances.map(({ figure, text, by_rank }) => (
              <li key={figure}>
                <p>{text}</p>
                <Evidence figures={figuresByRank(by_rank, figure)} />
              </li>
            ))}
          </ul>
        )}
        {steps.length > 0 && <StepTable steps={steps} />}
        {utilization.length > 0 && <SlotTable uses={utilization} />}
        {stalls.length > 0 && <StallTable stalls={stalls} />}
      </div>
    </Panel>
  );
}

/** The figures of each rank, with their unit. */
function figuresByRank(byRank: Readonly<Record<string, number>>, figure: string): Record<string, string> {
  return Object.fromEntries(Object.entries(byRank).map(([rank, value]) => [`rank ${rank}`, figureOf(figure, value)]));
}
