import { InlineView } from "./InlineView";
import type { Align, Block } from "./parse";

const ALIGN: Readonly<Record<Align, string>> = {
  left: "text-left",
  right: "text-right",
  center: "text-center",
};

/** A table of a document; it scrolls for itself where it is wide. */
export function TableView({ table }: { readonly table: Extract<Block, { readonly kind: "table" }> }) {
  const align = (column: number) => ALIGN[table.aligns[column] ?? "left"];
  return (
    <div role="group" aria-label="Table" tabIndex={0} className="overflow-x-auto scroll-thin">
      <table className="border-collapse text-12">
        <thead>
          <tr>
            {table.head.map((cell, column) => (
              <th key={column} className={`border border-line bg-panel-2 px-2 py-1 ${align(column)}`}>
                <InlineView inner={cell} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            <tr key={index}>
              {table.head.map((_, column) => (
                <td key={column} className={`border border-line px-2 py-1 ${align(column)}`}>
                  <InlineView inner={row[column] ?? []} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
