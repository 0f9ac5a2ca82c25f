import { cx } from "@/ui/cx";

const LOOK: Readonly<Record<string, string>> = { "+": "text-money", "-": "text-bad", "@": "text-ink-3" };

/** A unified diff as text; the sign at the beginning says what the colour says. */
export function DiffText({ label, text }: { readonly label: string; readonly text: string }) {
  return (
    <pre
      aria-label={label}
      role="region"
      tabIndex={0}
      className="num max-h-90 shrink-0 overflow-auto rounded-control border border-line bg-paper p-3 scroll-thin"
    >
      {text.split("\n").map((line, index) => (
        <span key={index} className={cx("block whitespace-pre-wrap", LOOK[line.charAt(0)])}>
          {line === "" ? " " : line}
        </span>
      ))}
    </pre>
  );
}
