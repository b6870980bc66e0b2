// The button "Notify me": a notification of the browser when the job ends or has an alert. The browser is asked only
// after a click.

import { useState } from "preact/hooks";
import { get } from "../../api/client.ts";
import { Problem } from "../../api/problem.ts";
import type { Job } from "../../api/types.ts";
import { isTerminal } from "../../parts/status.tsx";
import { go } from "../../url.ts";
import styles from "./header.module.css";
import { useEver } from "./use_job.ts";
import { MOST_WATCHED, messageOf, Watcher } from "./watching.ts";

const watcher = new Watcher({
  read: (id) => get<Job>(`/v1/jobs/${id}`),
  isGone: (error) => error instanceof Problem && error.status === 404,
  notify: (job) => {
    const { title, body } = messageOf(job);
    const notification = new Notification(title, { body, tag: job.id, icon: "/icon.svg" });
    notification.onclick = () => {
      window.focus();
      go(`/jobs/${job.id}`);
    };
  },
});

export function Notify({ job }: { job: Job }) {
  const [refusal, setRefusal] = useState<string>();
  const isLive = !isTerminal(job.status);
  const wasLive = useEver(isLive);
  if (!wasLive) return null;
  const isWatched = watcher.ids.value.has(job.id);
  const ask = async (): Promise<void> => {
    const why = isWatched ? undefined : await whyNot();
    setRefusal(why);
    if (why === undefined) watcher.toggle(job.id, job.alerts);
  };
  return (
    <span class={isLive ? styles["group"] : styles["gone"]}>
      <button
        type="button"
        aria-pressed={isWatched}
        title="A notification of the browser when the job ends or has an alert, as long as this page is open"
        onClick={() => void ask()}
      >
        {isWatched ? "Will notify" : "Notify me"}
      </button>
      {refusal !== undefined && (
        <p class={styles["waiting"]} role="status">
          {refusal}
        </p>
      )}
    </span>
  );
}

/** Why there can be no notification; undefined if there can. Asks the person if they were not asked before. */
async function whyNot(): Promise<string | undefined> {
  if (watcher.ids.peek().size >= MOST_WATCHED) return `At most ${MOST_WATCHED} jobs can be watched.`;
  if (!("Notification" in window)) return "This browser has no notifications.";
  if (!window.isSecureContext) return "Browsers show notifications only of pages with https, or of this machine.";
  const answer = await Notification.requestPermission();
  if (answer === "granted") return undefined;
  return "The browser does not allow notifications of this page. Allow them in its settings for this site.";
}
