import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useMemo, useRef, useState } from "react";
import { cx } from "./cx";
import { DownIcon, UpIcon } from "./icons/icons";
import { useRowStop } from "./useRowStop";

export interface Column<Row> {
  readonly id: string;
  readonly label: string;
  readonly cell: (row: Row) => ReactNode;
  /** Makes the column sortable. */
  readonly sortBy?: (row: Row) => string | number;
  readonly align?: "left" | "right";
  /** CSS width, such as `120px` or `30%`. */
  readonly width?: string;
}

interface TableProps<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly rowId: (row: Row) => string;
  readonly selected?: string | null;
  readonly onSelect?: (row: Row) => void;
  /** Shown instead of rows. */
  readonly empty?: ReactNode;
  readonly className?: string;
}

interface Order {
  readonly column: string;
  readonly down: boolean;
}

const ROW_PX = 28;

function ordered<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  order: Order | null,
): readonly Row[] {
  const sortBy = columns.find((column) => column.id === order?.column)?.sortBy;
  if (order === null || sortBy === undefined) return rows;
  const sign = order.down ? -1 : 1;
  return rows.toSorted((a, b) => {
    const [x, y] = [sortBy(a), sortBy(b)];
    return (
      sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)))
    );
  });
}

/** A table that mounts only the rows in sight; a click on a head sorts. A row is opened by click or Enter. */
export function Table<Row>({
  label,
  columns,
  rows,
  rowId,
  selected,
  onSelect,
  empty,
  className,
}: TableProps<Row>) {
  const [order, setOrder] = useState<Order | null>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const shown = useMemo(() => ordered(rows, columns, order), [rows, columns, order]);
  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    initialRect: { width: 800, height: 600 },
  });
  const items = virtual.getVirtualItems();
  const rowStop = useRowStop(scroller, (index) => virtual.scrollToIndex(index));
  const ids = useMemo(() => shown.map(rowId), [shown, rowId]);
  const stop = [rowStop.last, selected, ids[0]].find((id) => typeof id === "string" && ids.includes(id));
  const above = items[0]?.start ?? 0;
  const below = virtual.getTotalSize() - (items.at(-1)?.end ?? 0);

  if (rows.length === 0 && empty !== undefined) return <>{empty}</>;
  return (
    <div
      ref={scroller}
      tabIndex={0}
      role="region"
      aria-label={label}
      className={cx("h-full overflow-auto -outline-offset-2 scroll-thin", className)}
    >
      <table
        aria-label={label}
        aria-rowcount={shown.length + 1}
        className="w-full table-fixed border-collapse text-12"
      >
        <thead className="sticky top-0 z-1 bg-panel">
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <Head key={column.id} column={column} order={order} setOrder={setOrder} />
            ))}
          </tr>
        </thead>
        <tbody>
          {above > 0 && <Gap height={above} columns={columns.length} />}
          {items.map((item) => {
            const row = shown[item.index];
            if (row === undefined) return null;
            const id = ids[item.index] ?? "";
            return (
              <tr
                key={id}
                aria-rowindex={item.index + 2}
                aria-selected={onSelect === undefined ? undefined : id === selected}
                tabIndex={onSelect === undefined ? undefined : id === stop ? 0 : -1}
                style={{ height: ROW_PX }}
                onClick={onSelect && (() => onSelect(row))}
                onFocus={onSelect && (() => rowStop.keep(id))}
                onKeyDown={
                  onSelect &&
                  ((event) => {
                    if (event.target !== event.currentTarget) return;
                    if (event.key === "Enter") onSelect(row);
                    else rowStop.move(event, item.index, shown.length - 1);
                  })
                }
                className={cx(
                  "border-b border-line -outline-offset-2",
                  onSelect && "cursor-pointer hover:bg-panel-2",
                  id === selected && "bg-panel-2",
                )}
              >
                {columns.map((column) => (
                  <td
                    key={column.id}
                    className={cx("truncate px-2", column.align === "right" && "num text-right")}
                  >
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          {below > 0 && <Gap height={below} columns={columns.length} />}
        </tbody>
      </table>
    </div>
  );
}

function Gap({ height, columns }: { readonly height: number; readonly columns: number }) {
  return (
    <tr aria-hidden="true" style={{ height }}>
      <td colSpan={columns} />
    </tr>
  );
}

interface HeadProps<Row> {
  readonly column: Column<Row>;
  readonly order: Order | null;
  readonly setOrder: (order: Order | null) => void;
}

function Head<Row>({ column, order, setOrder }: HeadProps<Row>) {
  const mine = order?.column === column.id ? order : null;
  const next =
    mine === null ? { column: column.id, down: false } : mine.down ? null : { column: column.id, down: true };
  return (
    <th
      scope="col"
      style={{ width: column.width }}
      aria-sort={mine === null ? undefined : mine.down ? "descending" : "ascending"}
      className={cx(
        "border-b border-line px-2 py-1.5 font-medium text-ink-2",
        column.align === "right" ? "text-right" : "text-left",
      )}
    >
      {column.sortBy === undefined ? (
        column.label
      ) : (
        <button
          type="button"
          className="inline-flex min-h-6 items-center gap-1 hover:text-ink"
          onClick={() => setOrder(next)}
        >
          {column.label}
          {mine !== null && (mine.down ? <DownIcon size={12} /> : <UpIcon size={12} />)}
        </button>
      )}
    </th>
  );
}
