import type { ReactNode } from "react";
import { cx } from "./cx";
import { FILL_TONE, TEXT_TONE, type Tone } from "./tone";

/** A word in a frame, such as the kind of an event. */
export function Pill({ tone = "neutral", children }: { readonly tone?: Tone; readonly children: ReactNode }) {
  return (
    <span
      className={cx(
        "inline-block rounded-[4px] border border-current px-1.25 font-mono text-11 whitespace-nowrap",
        TEXT_TONE[tone],
      )}
    >
      {children}
    </span>
  );
}

/** A count. `label` says of what. */
export function Badge({
  count,
  label,
  tone = "neutral",
}: {
  readonly count: number;
  readonly label: string;
  readonly tone?: Tone;
}) {
  return (
    <span
      className={cx(
        "inline-block min-w-4 rounded-full border border-current px-1 text-center font-mono text-11",
        TEXT_TONE[tone],
      )}
    >
      <span aria-hidden="true">{count > 999 ? "999+" : count}</span>
      <span className="sr-only">
        {count} {label}
      </span>
    </span>
  );
}

/** A status: a dot of its colour and the word. */
export function Status({ tone, children }: { readonly tone: Tone; readonly children: ReactNode }) {
  return (
    <span className="inline-flex items-center gap-1.25 text-ink-2">
      <span aria-hidden="true" className={cx("size-1.75 shrink-0 rounded-full", FILL_TONE[tone])} />
      {children}
    </span>
  );
}
