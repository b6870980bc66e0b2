// The utilization of the runs, a line for each, below their curves. It is read when a person opens it.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Problem } from "../../api/problem.ts";
import type { Utilization as Answer } from "../../api/types.ts";
import { newScope } from "../../charts/scope.ts";
import { Panel } from "../../parts/panel.tsx";
import type { Curve } from "./curves.ts";
import styles from "./overlay.module.css";
import { Overlay } from "./overlay.tsx";
import type { Run } from "./runs.ts";
import { FORMS, utilizationOf, utilizationPath } from "./utilization.ts";
import { utilizationParam } from "./view.ts";

type Props = Omit<Parameters<typeof Overlay>[0], "metrics" | "curves" | "isLog">;

const TITLE = "Utilization";

/** The scope, and whether it is logarithmic, are those of the curves. They count only if these have the axis of time. */
export function Utilization({ scope, axis, isLogX = false, ...props }: Props) {
  const isOpen = utilizationParam.value === "1";
  const ownScope = useMemo(newScope, []);
  const fold = (
    <button type="button" aria-expanded={isOpen} onClick={() => utilizationParam.set(isOpen ? "" : "1")}>
      {isOpen ? "Hide" : "Show"}
      <span class="spoken"> utilization</span>
    </button>
  );
  if (isOpen)
    return (
      <Charts
        {...props}
        {...(axis === "time" ? { scope, isLogX } : { scope: ownScope })}
        axis="time"
        title={TITLE}
        tools={fold}
      />
    );
  return (
    <Panel title={TITLE} tools={fold} flush>
      <p class={styles["none"]}>GPU, memory, network and disks of each run since its start.</p>
    </Panel>
  );
}

function Charts(props: Omit<Props, "isLogX"> & { isLogX?: boolean; tools: ComponentChildren }) {
  const { runs } = props;
  const [byRun, setByRun] = useState<Read>(NOTHING);
  const [problem, setProblem] = useState<Problem>();
  const shownRuns = runs.filter(({ isHidden }) => !isHidden);
  const metrics = [...FORMS.keys()].filter((key) => shownRuns.some(({ id }) => byRun.get(id)?.has(key)));
  const isLoading = shownRuns.some(({ id, job }) => job.started_at !== null && !byRun.has(id));
  const without = shownRuns.filter(({ id }) => !byRun.get(id)?.size);
  const note = isLoading
    ? "Loading…"
    : metrics.length === 0
      ? "None of these runs has samples of its utilization."
      : without.length > 0
        ? `Without samples: ${without.map(({ number, label }) => `${number} ${label}`).join(", ")}.`
        : null;
  return (
    <>
      <Readers runs={shownRuns} runCount={runs.length} onRead={setByRun} onProblem={setProblem} />
      <Overlay {...props} metrics={metrics} curves={{ byRun, problem }} isLog={false} forms={FORMS} note={note} />
    </>
  );
}

/** The curves of each run that was read, by metric. */
type Read = ReadonlyMap<string, ReadonlyMap<string, Curve>>;
const NOTHING: Read = new Map();

const AT_ONCE = 4; // a browser has six connections to a host, and the page needs some for the rest
const GATHERED_MS = 300; // answers within this time are drawn together
const LIVE_S = 10;

interface ReadersProps {
  runs: readonly Run[];
  /** Of the comparison, with the hidden ones. */
  runCount: number;
  onRead: (byRun: Read) => void;
  onProblem: (problem: Problem | undefined) => void;
}

/** Reads the utilization of the runs, a few at once. */
function Readers({ runs, runCount, onRead, onProblem }: ReadersProps) {
  const read = useRef(NOTHING);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [, readNext] = useReducer<number, void>((count) => count + 1, 0);
  const onAnswer = (id: string, answer: Answer): void => {
    read.current = new Map(read.current).set(id, utilizationOf(answer));
    readNext();
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      onRead(read.current);
    }, GATHERED_MS);
  };
  let free = AT_ONCE;
  const now = runs.filter(({ id, job }) => job.started_at !== null && (read.current.has(id) || free-- > 0));
  return now.map((run) => (
    <Reader key={run.id} run={run} runCount={runCount} onAnswer={onAnswer} onProblem={onProblem} />
  ));
}

interface ReaderProps extends Pick<ReadersProps, "runCount" | "onProblem"> {
  run: Run;
  onAnswer: (id: string, answer: Answer) => void;
}

function Reader({ run: { id, job }, runCount, onAnswer, onProblem }: ReaderProps) {
  const { data, problem } = usePolled<Answer>(utilizationPath(id, job.gpus, runCount), {
    every_s: job.ended_at === null ? Math.max(LIVE_S, runCount) : Number.POSITIVE_INFINITY,
  });
  useEffect(() => {
    if (data !== undefined) onAnswer(id, data);
  }, [data]);
  useEffect(() => onProblem(problem), [problem]);
  return null;
}
