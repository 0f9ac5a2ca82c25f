import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { Select } from "@/ui/Select";
import { Loaded } from "../parts/Loaded";
import { Part } from "../parts/Part";

interface DiffProps {
  readonly id: string;
  readonly after: number;
}

const CHOICES_MAX = 100;
const LINES_MAX = 2_000;

function tone(line: string): string {
  if (line.startsWith("+")) return "text-money";
  if (line.startsWith("-")) return "text-bad";
  return line.startsWith("@@") ? "text-agent" : "text-ink-2";
}

/** What changed from an earlier version to the shown one; signs say it, colours repeat it. */
export function Diff({ id, after }: DiffProps) {
  const [before, setBefore] = useState(after - 1);
  const query = useQuery({
    queryKey: ["artifact-diff", id, before, after],
    queryFn: ({ signal }) =>
      api.get<Shape<"ArtifactDiff">>(`${path("artifacts", id)}/diff`, { a: before, b: after }, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const earlier = Array.from({ length: Math.min(CHOICES_MAX, after - 1) }, (_, index) => after - 1 - index);
  return (
    <Part title={`What v${after} changed`}>
      <Select
        label="Compared with"
        value={String(before)}
        options={earlier.map((one) => ({ value: String(one), label: `v${one}` }))}
        onChange={(value) => setBefore(Number(value))}
        className="max-w-40"
      />
      <Loaded query={query} what="the difference">
        {({ text }) =>
          text === "" ? (
            <p className="text-ink-2">The content is the same; something else was changed.</p>
          ) : (
            <pre
              tabIndex={0}
              className="num max-h-120 overflow-auto rounded-control border border-line bg-paper p-2 whitespace-pre-wrap break-words scroll-thin"
            >
              {text
                .split("\n")
                .slice(0, LINES_MAX)
                .map((line, index) => (
                  <span key={index} className={`block ${tone(line)}`}>
                    {line === "" ? " " : line}
                  </span>
                ))}
            </pre>
          )
        }
      </Loaded>
    </Part>
  );
}
