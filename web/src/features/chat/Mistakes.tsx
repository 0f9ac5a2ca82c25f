import { CheckIcon, WarnIcon } from "@/ui/icons/icons";
import type { Mistake } from "./api";

/** What is wrong with a profile, each with its place. null: it was not checked. */
export function Mistakes({ mistakes }: { readonly mistakes: readonly Mistake[] | null }) {
  if (mistakes === null) return null;
  if (mistakes.length === 0) {
    return (
      <p role="status" className="flex items-center gap-2 text-money">
        <CheckIcon /> Nothing is wrong with it.
      </p>
    );
  }
  return (
    <div role="alert" className="rounded-card border border-bad p-3">
      <p className="flex items-center gap-2 text-bad">
        <WarnIcon /> {mistakes.length === 1 ? "One mistake" : `${mistakes.length} mistakes`}. It was not
        stored.
      </p>
      <ul className="mt-2 flex max-h-48 flex-col gap-1 overflow-auto scroll-thin">
        {mistakes.map((one, index) => (
          <li key={index} className="text-12">
            <code className="num text-11 text-ink">{one.path === "" ? "the whole profile" : one.path}</code>{" "}
            <span className="break-words text-ink-2">{one.message}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
