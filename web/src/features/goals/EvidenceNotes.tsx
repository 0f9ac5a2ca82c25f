import { useLayoutEffect, useRef, useState } from "react";
import { idOf, shortName } from "@/projection/event";
import { select } from "@/state/ui";
import { plainText } from "@/ui/markdown/parse";
import type { Evidence } from "./evidence";
import type { Mark } from "./useMarks";

interface EvidenceNotesProps {
  readonly evidence: readonly Evidence[];
  readonly marks: readonly Mark[];
}

const GAP_PX = 12;

/** The margin: each note as near to its claim as those above it allow. Without a margin they follow the text. */
export function EvidenceNotes({ evidence, marks }: EvidenceNotesProps) {
  const list = useRef<HTMLOListElement>(null);
  const [gaps, setGaps] = useState<readonly number[]>([]);
  useLayoutEffect(() => {
    const notes = [...(list.current?.children ?? [])].map((one) => one.getBoundingClientRect().height);
    setGaps(gapsOf(evidence, marks, notes));
  }, [evidence, marks]);
  return (
    <aside aria-label="Evidence" className="min-w-0">
      <ol ref={list} className="flex flex-col">
        {evidence.map((one, index) => (
          <li key={one.number} style={{ marginTop: gaps[index] ?? GAP_PX }}>
            <button
              type="button"
              onClick={() => select("artifact", idOf(one.ref))}
              className="block w-full border-l-2 border-artifact py-0.5 pl-2.5 text-left text-12 text-ink-2 hover:text-ink"
            >
              <b className="line-clamp-3 font-semibold break-words text-ink">
                {one.number} · {one.criterion}
              </b>
              <span className="line-clamp-4 break-words">“{plainText(one.quote)}”</span>
              <span className="num block truncate text-ink-3">{shortName(one.ref)}</span>
            </button>
          </li>
        ))}
      </ol>
    </aside>
  );
}

/** Space above each note, so that it begins at its mark or right after the one before it. */
function gapsOf(evidence: readonly Evidence[], marks: readonly Mark[], heights: readonly number[]) {
  let bottom = 0;
  return evidence.map((one, index) => {
    const wanted = marks.find((mark) => mark.number === one.number)?.y ?? 0;
    const gap = Math.max(index === 0 ? 0 : GAP_PX, wanted - bottom);
    bottom += gap + (heights[index] ?? 0);
    return gap;
  });
}
