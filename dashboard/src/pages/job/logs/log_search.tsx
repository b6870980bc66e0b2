// The search bar above a log.

import styles from "./logs.module.css";
import type { Matches } from "./use_matches.ts";

interface Props {
  needle: string;
  matches: Matches;
  isOnlyMatches: boolean;
  onNeedle: (needle: string) => void;
  onOnlyMatches: (isOnly: boolean) => void;
}

const LONGEST = 200; // the api's limit for a search

export function LogSearch({ needle, matches, isOnlyMatches, onNeedle, onOnlyMatches }: Props) {
  function pressed(event: KeyboardEvent): void {
    if (event.key === "Enter") void matches.go(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") onNeedle("");
    else return;
    event.preventDefault();
  }
  return (
    <search class={styles["search"]}>
      <input
        type="search"
        placeholder="Find in the log"
        aria-label="Find in the log"
        title="Enter: next match. Shift+Enter: previous match. Outside this field: n and N."
        maxLength={LONGEST}
        value={needle}
        onInput={(event) => onNeedle(event.currentTarget.value)}
        onKeyDown={pressed}
      />
      {needle !== "" && (
        <>
          <button type="button" aria-label="Previous match (N)" onClick={() => void matches.go(-1)}>
            ↑
          </button>
          <button type="button" aria-label="Next match (n)" onClick={() => void matches.go(1)}>
            ↓
          </button>
          <span class="muted" role="status">
            {matchText(matches)}
          </span>
        </>
      )}
      <label class={styles["field"]}>
        <input
          type="checkbox"
          checked={isOnlyMatches}
          onChange={(event) => onOnlyMatches(event.currentTarget.checked)}
        />
        Only matches
      </label>
    </search>
  );
}

function matchText({ count, position, isSearching }: Matches): string {
  if (isSearching) return "Searching older lines…";
  if (position > 0) return `${position} of ${count} in the loaded lines`;
  return `${count.toLocaleString("en")} ${count === 1 ? "match" : "matches"} in the loaded lines`;
}
