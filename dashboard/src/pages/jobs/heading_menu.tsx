// The menu of a heading: sort, filter, pin, hide, the heat map.

import { type Place, Popup } from "../../parts/popup.tsx";
import { type Choice, type Column, type ColumnId, heatToggled, pinToggled, toggled } from "./columns.ts";
import { isExtended, nextOrder, type Order, placeIn } from "./view.ts";

export interface OpenMenu {
  readonly column: Column & { readonly id: ColumnId };
  readonly place: Place;
}

interface Props extends OpenMenu {
  choice: Choice;
  order: Order;
  /** Whether a row has a number there. */
  isNumeric: boolean;
  onChoose: (choice: Choice) => void;
  onOrder: (order: Order) => void;
  onFilter: (field: string) => void;
  onClose: () => void;
}

export function HeadingMenu({ column, place, choice, order, isNumeric, onChoose, onOrder, onFilter, onClose }: Props) {
  const { id, title, sort } = column;
  const items: [text: string, act: () => void][] = [];
  if (sort !== undefined) items.push(["Sort ↑", () => onOrder(sort)], ["Sort ↓", () => onOrder(`-${sort}`)]);
  if (sort !== undefined && isExtended(order) && placeIn(order, sort) !== 0)
    items.push(["Then by this", () => onOrder(nextOrder(order, sort, true))]);
  if (sort !== undefined && id !== "best") items.push(["Filter…", () => onFilter(id)]); // that one is several fields
  items.push([choice.pinned.includes(id) ? "Unpin" : "Pin", () => onChoose(pinToggled(choice, id))]);
  if (id !== "name") items.push(["Hide", () => onChoose(toggled(choice, id))]);
  if (isNumeric)
    items.push([
      choice.heat?.includes(id) ? "No heat map" : "Heat map of the loaded rows",
      () => onChoose(heatToggled(choice, id)),
    ]);
  return (
    <Popup label={`Column ${title}`} place={place} onClose={onClose}>
      {items.map(([text, act]) => (
        <button
          key={text}
          type="button"
          onClick={() => {
            onClose();
            act();
          }}
        >
          {text}
        </button>
      ))}
    </Popup>
  );
}
