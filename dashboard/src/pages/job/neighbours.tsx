// The ways to the previous and the next job of the list from which a person came. The address keeps tab, axis and zoom.

import { useEffect } from "preact/hooks";
import { listedIds } from "../../listed.ts";
import { useKeyHelp } from "../../parts/key_help.ts";
import { go, query } from "../../url.ts";
import { actionOf, controlOf } from "../jobs/keys.ts";
import styles from "./header.module.css";

const KEYS = [
  ["j", "next job of the list"],
  ["k", "previous job of the list"],
] as const;

export function Neighbours({ id }: { id: string }) {
  useKeyHelp("Job", KEYS);
  const ids = listedIds();
  const place = ids.indexOf(id);
  const hrefOf = (step: 1 | -1): string | undefined => {
    const next = place < 0 ? undefined : ids[place + step];
    return next && `/jobs/${next}${query.value && `?${query.value}`}`;
  };
  const [previous, next] = [hrefOf(-1), hrefOf(1)];
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.key !== "j" && event.key !== "k") return; // the arrows scroll, and move the cursor of charts
      const action = actionOf(event, controlOf(event.target as Element));
      const href = action === "next" ? next : action === "previous" ? previous : undefined;
      if (href !== undefined) go(href);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [previous, next]);
  if (previous === undefined && next === undefined) return null;
  return (
    <nav aria-label="Jobs of the list">
      <Way href={previous} text="Previous job" sign="‹" keys="k" />{" "}
      <Way href={next} text="Next job" sign="›" keys="j" />
    </nav>
  );
}

interface WayProps {
  href: string | undefined;
  text: string;
  sign: string;
  keys: string;
}

function Way({ href, text, sign, keys }: WayProps) {
  if (href === undefined)
    return (
      <span class={`${styles["action"]} muted`} aria-hidden="true">
        {sign}
      </span>
    );
  return (
    <a class={styles["action"]} href={href} aria-label={text} title={`${text} of the list (${keys})`}>
      {sign}
    </a>
  );
}
