import { readCsv } from "./forms";

const ROWS_MAX = 200;
const CELL = "max-w-60 truncate border border-line px-2 py-1";

/** The first rows of comma-separated values as a table. */
export function CsvTable({ source }: { readonly source: string }) {
  const { rows, isCut } = readCsv(source, ROWS_MAX + 1);
  const [head = [], ...body] = rows;
  return (
    <>
      <div role="group" aria-label="Rows" tabIndex={0} className="max-h-120 overflow-auto scroll-thin">
        <table className="num border-collapse">
          <thead>
            <tr>
              {head.map((cell, column) => (
                <th key={column} scope="col" className={`${CELL} sticky top-0 bg-panel-2 text-left`}>
                  {cell}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {body.map((row, index) => (
              <tr key={index}>
                {head.map((_, column) => (
                  <td key={column} title={row[column]} className={CELL}>
                    {row[column] ?? ""}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {isCut && (
        <p className="text-12 text-ink-2">The first {body.length} rows; the download has them all.</p>
      )}
    </>
  );
}
