// A menu at a place of the page, above all else: for headings and rows. Arrows move in it.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { useDismissal } from "./menu.tsx";
import styles from "./popup.module.css";

export interface Place {
  readonly x: number;
  readonly y: number;
}

/** Where a menu opens: at the pointer, or below the button that was pressed. */
export function placeOf(event: MouseEvent | KeyboardEvent): Place {
  event.preventDefault();
  if (event instanceof MouseEvent && event.type === "contextmenu") return { x: event.clientX, y: event.clientY };
  const { left, bottom } = (event.currentTarget as Element).getBoundingClientRect();
  return { x: left, y: bottom };
}

interface Props {
  label: string;
  place: Place;
  onClose: () => void;
  children: ComponentChildren;
}

const EDGE_PX = 8;

export function Popup({ label, place, onClose, children }: Props) {
  const panel = useRef<HTMLDivElement>(null);
  const items = (): HTMLElement[] => [
    ...(panel.current?.querySelectorAll<HTMLElement>("a, button:not(:disabled)") ?? []),
  ];
  useLayoutEffect(() => {
    const element = panel.current as HTMLDivElement;
    const opener = document.activeElement as HTMLElement;
    element.showPopover(); // no scroller cuts it off
    element.style.left = `${Math.min(place.x, innerWidth - element.offsetWidth - EDGE_PX)}px`;
    element.style.top = `${Math.max(EDGE_PX, Math.min(place.y, innerHeight - element.offsetHeight - EDGE_PX))}px`;
    items()[0]?.focus();
    return () => {
      if (element.contains(document.activeElement)) opener.focus();
    };
  }, [place]);
  useDismissal(panel, true, onClose);
  return (
    <div
      ref={panel}
      popover="manual"
      class={styles["popup"]}
      role="group"
      aria-label={label}
      onKeyDown={(event) => {
        event.stopPropagation(); // the keys of the page rest
        const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (by === undefined || (event.target as Element).closest("dialog")) return;
        event.preventDefault();
        const all = items();
        all.at((all.indexOf(document.activeElement as HTMLElement) + by) % all.length)?.focus();
      }}
    >
      {children}
    </div>
  );
}
