// The swatch of a run or a group as a button: it opens a menu of the palette's colours.

import { useState } from "preact/hooks";
import { HUES, runColour } from "../../charts/palette.ts";
import { Swatch } from "../../charts/swatch.tsx";
import { type Place, Popup, placeOf } from "../../parts/popup.tsx";
import { pairsOf, pairsText } from "../../query.ts";
import styles from "./run_list.module.css";
import { coloursParam } from "./view.ts";

interface Props {
  /** The id of a run, or the key of a group. */
  of: string;
  name: string;
  colour: string;
  dash: readonly number[];
}

export function ColourButton({ of, name, colour, dash }: Props) {
  const [place, setPlace] = useState<Place>();
  const choose = (hue: number | null): void => {
    const colours = pairsOf(coloursParam.value);
    if (hue === null) colours.delete(of);
    else colours.set(of, String(hue));
    coloursParam.set(pairsText(colours));
    setPlace(undefined);
  };
  return (
    <>
      <button
        type="button"
        class={styles["show"]}
        aria-haspopup="true"
        aria-label={`Colour of ${name}`}
        title="Choose the colour"
        onClick={(event) => setPlace(placeOf(event))}
      >
        <Swatch colour={colour} dash={dash} />
      </button>
      {place && (
        <Popup label={`Colour of ${name}`} place={place} onClose={() => setPlace(undefined)}>
          {HUES.map((text, hue) => (
            <button key={text} type="button" aria-pressed={colour === runColour(hue)} onClick={() => choose(hue)}>
              <Swatch colour={runColour(hue)} dash={dash} /> {text} {colour === runColour(hue) && "✓"}
            </button>
          ))}
          <button type="button" onClick={() => choose(null)}>
            automatic
          </button>
        </Popup>
      )}
    </>
  );
}
