// The log of a job: by rank, searched, followed, and as a download. Its settings are in the address.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Job } from "../../../api/types.ts";
import { moment } from "../../../format.ts";
import { useKeyHelp } from "../../../parts/key_help.ts";
import { ProblemNotice, Waiting } from "../../../parts/notice.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { param } from "../../../url.ts";
import type { LogFeed } from "./feed.ts";
import { LogRows } from "./log_rows.tsx";
import { LogSearch } from "./log_search.tsx";
import styles from "./logs.module.css";
import { chosenSource, Tools, timesParam, wrapParam } from "./tools.tsx";
import { useLog } from "./use_log.ts";
import { useMatches } from "./use_matches.ts";

const needleParam = param("log_find");
const onlyMatchesParam = param("log_only");

const TYPING_MS = 300;

const KEYS = [
  ["n", "next match"],
  ["N", "previous match"],
] as const;

export function LogPanel({ job }: { job: Job }) {
  useKeyHelp("Logs", KEYS);
  const needle = needleParam.value;
  const search = useRested(onlyMatchesParam.value === "" ? "" : needle);
  const source = chosenSource(job.id, search);
  const isFiltered = search + source.since + source.until !== "" || source.level !== null || source.attempt !== null;
  const feed = useLog(source, job.ended_at === null);
  const [isFollowing, setFollowing] = useState(true);
  const topId = useRef<number>(0);
  const matches = useMatches(feed, needle, topId, () => setFollowing(false));
  const { lines, hasOlder, problem } = feed.reading;

  function pressed(event: KeyboardEvent): void {
    const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n") void matches.go(1);
    else if (event.key === "N") void matches.go(-1);
    else return;
    event.preventDefault();
  }

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: n and N work wherever the focus is within
    <div onKeyDown={pressed}>
      <Panel title="Logs" flush tools={<Tools job={job} source={source} />}>
        <LogSearch
          needle={needle}
          matches={matches}
          isOnlyMatches={onlyMatchesParam.value !== ""}
          onNeedle={needleParam.set}
          onOnlyMatches={(isOnly) => onlyMatchesParam.set(isOnly ? "1" : "")}
        />
        <ProblemNotice problem={problem} />
        <div class={styles["view"]}>
          {lines.length === 0 ? (
            <Empty job={job} feed={feed} isFiltered={isFiltered} />
          ) : (
            <LogRows
              lines={lines}
              hasOlder={hasOlder === true}
              isWrapped={wrapParam.value === "on"}
              hasTimes={timesParam.value !== ""}
              isFollowing={isFollowing}
              onFollow={setFollowing}
              onNearTop={() => void feed.older()}
              needle={needle}
              topId={topId}
              target={matches.target}
            />
          )}
          {!isFollowing && (
            <button type="button" class={styles["newest"]} onClick={() => setFollowing(true)}>
              ↓ Newest
            </button>
          )}
        </div>
        <Footer job={job} feed={feed} isFiltered={isFiltered} isFollowing={isFollowing} onFollow={setFollowing} />
      </Panel>
    </div>
  );
}

interface FooterProps {
  job: Job;
  feed: LogFeed;
  isFiltered: boolean;
  isFollowing: boolean;
  onFollow: (isFollowing: boolean) => void;
}

function Footer({ job, feed, isFiltered, isFollowing, onFollow }: FooterProps) {
  const { lines, hasOlder } = feed.reading;
  return (
    <footer class={styles["footer"]}>
      <span>
        {lines.length.toLocaleString("en")} {isFiltered ? "matching lines" : "lines"} loaded
        {hasOlder === true ? "; scroll up for older lines" : ""}
      </span>
      {job.ended_at === null && (
        <label>
          <input type="checkbox" checked={isFollowing} onChange={(event) => onFollow(event.currentTarget.checked)} />{" "}
          Follow
        </label>
      )}
    </footer>
  );
}

function Empty({ job, feed, isFiltered }: { job: Job; feed: LogFeed; isFiltered: boolean }) {
  const { hasOlder, problem } = feed.reading;
  if (hasOlder === null) return <Waiting problem={problem} subject="the newest lines" />;
  return <p class={styles["empty"]}>{reasonForNone(job, isFiltered)}</p>;
}

function reasonForNone(job: Job, isFiltered: boolean): string {
  if (job.logs_removed_at !== null) return `The lines of this job were removed on ${moment(job.logs_removed_at)}.`;
  if (isFiltered) return "No line matches.";
  if (job.attempt === 0) return "No lines yet: the job has not been launched.";
  return job.ended_at === null ? "No lines yet." : "Nothing was printed.";
}

/** A value after it has not changed for a moment; an empty value at once. */
function useRested(value: string): string {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), value === "" ? 0 : TYPING_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return rested;
}
