import { Markdown } from "@/ui/markdown/Markdown";
import { CsvTable } from "./CsvTable";
import { type Form, sizeWords } from "./forms";
import { JsonTree } from "./JsonTree";
import { SourceText } from "./SourceText";

interface ContentProps {
  readonly form: Form;
  readonly isSource: boolean;
  readonly value: unknown;
  readonly quote: string;
  readonly size: number;
}

/** The content itself, in one of its forms. */
export function Content({ form, isSource, value, quote, size }: ContentProps) {
  if (form === "bytes") {
    return (
      <p className="text-ink-2">{sizeWords(size)} that are no text. Download it to open it elsewhere.</p>
    );
  }
  const source = typeof value === "string" && form !== "json" ? value : JSON.stringify(value, null, 2);
  if (source === "") return <p className="text-ink-2">It is empty.</p>;
  if (isSource || form === "text") return <SourceText source={source} quote={quote} />;
  if (form === "json") return <JsonTree value={value} />;
  return form === "table" ? <CsvTable source={source} /> : <Markdown source={source} />;
}
