// The choices above a log: which lines, and how they are shown. All are in the address.

import { get } from "../../../api/client.ts";
import type { Job, LogView } from "../../../api/types.ts";
import { ranksOf } from "../../../metrics.ts";
import { Menu } from "../../../parts/menu.tsx";
import { TypedInput } from "../../../parts/typed_input.tsx";
import { listOf } from "../../../query.ts";
import { param } from "../../../url.ts";
import { timeOf } from "../../settings/matching.ts";
import { CopyButton } from "../copy_button.tsx";
import { DownloadLog } from "./download_log.tsx";
import type { Source } from "./feed.ts";
import { LEVELS, rankName } from "./lines.ts";
import styles from "./logs.module.css";
import { MOST_COPIED, shownLog } from "./whole.ts";

const rankParam = param("log_rank");
const attemptParam = param("log_attempt");
const levelParam = param("log_level");
const sinceParam = param("log_since");
const untilParam = param("log_until");
const TIMES = [
  ["From", sinceParam],
  ["Until", untilParam],
] as const;

export const wrapParam = param("log_wrap", "on");
export const timesParam = param("log_times");

/** The lines of a job that were chosen. */
export function chosenSource(job: string, search: string): Source {
  return {
    job,
    ranks: ranks(),
    attempt: Number(attemptParam.value) || null,
    level: LEVELS.find((each) => each === levelParam.value) ?? null,
    search,
    since: sinceParam.value,
    until: untilParam.value,
  };
}

function ranks(): number[] {
  return listOf(rankParam.value)
    .map((text) => (text === "launcher" ? -1 : Number(text)))
    .filter(Number.isInteger);
}

export function Tools({ job, source }: { job: Job; source: Source }) {
  return (
    <>
      <Ranks job={job} chosen={source.ranks} />
      {job.attempt > 1 && (
        <label class={styles["field"]}>
          Attempt
          <select value={attemptParam.value} onChange={(event) => attemptParam.set(event.currentTarget.value)}>
            <option value="">all</option>
            {Array.from({ length: job.attempt }, (_, index) => (
              <option key={index} value={String(index + 1)}>
                {index + 1}
              </option>
            ))}
          </select>
        </label>
      )}
      <label class={styles["field"]}>
        Level
        <select value={levelParam.value} onChange={(event) => levelParam.set(event.currentTarget.value)}>
          <option value="">all</option>
          <option value="info">info and above</option>
          <option value="warning">warnings and errors</option>
          <option value="error">errors</option>
        </select>
      </label>
      <Times />
      <Switch text="Times" isOn={timesParam.value !== ""} onChange={(isOn) => timesParam.set(isOn ? "on" : "")} />
      <Switch text="Wrap" isOn={wrapParam.value === "on"} onChange={(isOn) => wrapParam.set(isOn ? "on" : "off")} />
      <CopyButton
        text={() => shownLog(source, get<LogView>, timesParam.value !== "")}
        label={`Copy the lines that are shown here, at most the newest ${MOST_COPIED.toLocaleString("en")}`}
      >
        Copy
      </CopyButton>
      <DownloadLog job={job} source={source} />
    </>
  );
}

function Switch({ text, isOn, onChange }: { text: string; isOn: boolean; onChange: (isOn: boolean) => void }) {
  return (
    <label class={styles["field"]}>
      <input type="checkbox" checked={isOn} onChange={(event) => onChange(event.currentTarget.checked)} />
      {text}
    </label>
  );
}

function Ranks({ job, chosen }: { job: Job; chosen: readonly number[] }) {
  const toggle = (rank: number): void => {
    const rest = chosen.filter((each) => each !== rank);
    const next = rest.length < chosen.length ? rest : [...chosen, rank].toSorted((a, b) => a - b);
    rankParam.set(next.map((each) => (each < 0 ? "launcher" : each)).join());
  };
  const [first] = chosen;
  const isOne = chosen.length === 1 && first !== undefined;
  return (
    <Menu title={isOne ? `From ${rankName(first)}` : "From"} count={isOne ? 0 : chosen.length}>
      {Array.from({ length: ranksOf(job) + 1 }, (_, index) => index - 1).map((rank) => (
        <Switch key={rank} text={rankName(rank)} isOn={chosen.includes(rank)} onChange={() => toggle(rank)} />
      ))}
      <button type="button" disabled={chosen.length === 0} onClick={() => rankParam.set("")}>
        All
      </button>
    </Menu>
  );
}

/** The range of times. The fields have the clock of this machine, the address has UTC. */
function Times() {
  return (
    <Menu title="Between" count={TIMES.filter(([, each]) => each.value !== "").length}>
      {TIMES.map(([text, each]) => (
        <label key={text} class={styles["field"]}>
          {text}
          <TypedInput
            type="datetime-local"
            step="1"
            value={localOf(each.value)}
            onTyped={(input) => each.set(timeOf(input.value) ?? "")}
          />
        </label>
      ))}
    </Menu>
  );
}

const MINUTE_MS = 60_000;

function localOf(moment: string): string {
  const date = new Date(moment);
  const ms = date.getTime() - date.getTimezoneOffset() * MINUTE_MS;
  return Number.isNaN(ms) ? "" : new Date(ms).toISOString().slice(0, 19);
}
