import type { DecisionRow } from "@/projection/rowsDecision";
import { Status } from "@/ui/Badge";

/** What evaluation said of an iteration; a dash where nothing was judged. */
export function Verdict({ row }: { readonly row: DecisionRow }) {
  if (row.verdict === "") return <span className="text-ink-3">–</span>;
  const tone = row.passed === true ? "money" : row.isError ? "bad" : "warn";
  return (
    <span title={row.summary === "" ? row.verdict : `${row.verdict}: ${row.summary}`}>
      <Status tone={tone}>{row.verdict}</Status>
    </span>
  );
}
