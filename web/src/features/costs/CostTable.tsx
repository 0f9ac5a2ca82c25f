import { useId } from "react";
import { dollars, whole } from "@/ui/amounts";
import { type CostRow, tokens } from "./group";

interface CostTableProps {
  readonly title: string;
  /** What a line is: `Agent`. */
  readonly head: string;
  readonly rows: readonly CostRow[];
  readonly note?: string;
}

const ROWS_MAX = 50;

/** Costs by one thing: a bar for the eye, and the numbers. */
export function CostTable({ title, head, rows, note }: CostTableProps) {
  const id = useId();
  const cost = Math.max(0, ...rows.map((row) => row.microusd));
  const most = cost > 0 ? cost : Math.max(0, ...rows.map(tokens));
  const share = (row: CostRow) => (most === 0 ? 0 : (cost > 0 ? row.microusd : tokens(row)) / most);
  return (
    <section aria-labelledby={id} className="min-w-0 rounded-card border border-line bg-panel">
      <h2 id={id} className="border-b border-line px-4 py-2 text-13">
        {title} {note !== undefined && <span className="ml-2 font-normal text-ink-3">{note}</span>}
      </h2>
      {rows.length === 0 ? (
        <p className="px-4 py-3 text-ink-2">Nothing was spent in this time.</p>
      ) : (
        <table aria-labelledby={id} className="w-full table-fixed text-12">
          <thead>
            <tr className="text-ink-2">
              <th scope="col" className="px-4 py-1.5 text-left font-medium">
                {head}
              </th>
              <th scope="col" className="w-22 px-2 py-1.5 text-right font-medium">
                Cost
              </th>
              <th scope="col" className="w-16 px-2 py-1.5 text-right font-medium max-tablet:hidden">
                Calls
              </th>
              <th scope="col" className="w-26 py-1.5 pr-4 pl-2 text-right font-medium">
                Tokens
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, ROWS_MAX).map((row) => (
              <tr key={row.id} className="border-t border-line">
                <th scope="row" className="px-4 py-1.5 text-left font-normal">
                  <span className="block truncate" title={row.label}>
                    {row.label}
                  </span>
                  <Bar share={share(row)} />
                </th>
                <td className="num px-2 text-right">{dollars(row.microusd)}</td>
                <td className="num px-2 text-right max-tablet:hidden">{whole(row.calls)}</td>
                <td
                  className="num pr-4 pl-2 text-right"
                  title={`${whole(row.inputTokens)} in, ${whole(row.outputTokens)} out`}
                >
                  {whole(tokens(row))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {rows.length > ROWS_MAX && (
        <p className="border-t border-line px-4 py-2 text-12 text-ink-2">
          {rows.length - ROWS_MAX} smaller ones are not shown.
        </p>
      )}
    </section>
  );
}

/** Decoration: the number stands beside it. */
function Bar({ share }: { readonly share: number }) {
  return (
    <svg aria-hidden="true" viewBox="0 0 100 3" preserveAspectRatio="none" className="mt-1 h-1 w-full">
      <rect width="100" height="3" rx="1" className="fill-line" />
      <rect width={Math.max(share > 0 ? 1 : 0, share * 100)} height="3" rx="1" className="fill-money" />
    </svg>
  );
}
