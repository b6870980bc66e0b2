// A short piece of a run's line, with its colour and its dash.

interface Props {
  colour: string;
  dash?: readonly number[] | undefined;
}

export function Swatch({ colour, dash = [] }: Props) {
  return (
    <svg width="18" height="8" aria-hidden="true">
      <line
        x1="1"
        x2="17"
        y1="4"
        y2="4"
        stroke={`var(--${colour})`}
        stroke-width="2.5"
        stroke-linecap={dash.length === 0 ? "round" : "butt"}
        stroke-dasharray={dash.join(" ")}
      />
    </svg>
  );
}
