import { useState } from "react";
import { Button } from "@/ui/Button";
import { clock } from "@/ui/time";
import type { Feed } from "./api";
import { ValueView } from "./ValueView";

const SHOWN = 12;

interface TimelineProps {
  readonly entries: Feed["entries"];
  readonly empty: string;
}

/** Values with their times, newest first. */
export function Timeline({ entries, empty }: TimelineProps) {
  const [count, setCount] = useState(SHOWN);
  if (entries.length === 0) return <p className="text-12 text-ink-2">{empty}</p>;
  return (
    <>
      <ol className="flex flex-col gap-1.5 border-l border-line pl-3">
        {entries.slice(0, count).map((one, index) => (
          <li
            key={`${one.version} ${one.at_us} ${index}`}
            className="relative before:absolute before:top-1.5 before:-left-[15.5px] before:size-1.5 before:rounded-full before:bg-artifact before:content-['']"
          >
            <span className="num block text-11 text-ink-3">{clock(one.at_us)}</span>
            <ValueView value={one.value} />
          </li>
        ))}
      </ol>
      {entries.length > count && (
        <Button size="small" variant="quiet" onClick={() => setCount(count + 50)}>
          {entries.length - count} more
        </Button>
      )}
    </>
  );
}
