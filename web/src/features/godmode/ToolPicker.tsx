import { useQuery } from "@tanstack/react-query";
import { api, inWords } from "@/client/http";
import type { Shape } from "@/client/types";
import { Choices } from "./fields";

interface ToolPickerProps {
  readonly field: string;
  readonly chosen: readonly string[];
  readonly error: string | undefined;
  readonly onChange: (tools: readonly string[]) => void;
}

/** Which tools an agent is given, of those that there are; a name that is none of them can be taken off. */
export function ToolPicker({ field, chosen, error, onChange }: ToolPickerProps) {
  const { data, error: failure } = useQuery({
    queryKey: ["server", "tools"],
    queryFn: ({ signal }) =>
      api.get<{ readonly items: readonly Shape<"ToolShown">[] }>("/server/tools", undefined, signal),
    staleTime: 60_000,
  });
  const known = (data?.items ?? []).map((tool) => tool.name);
  const options = [...new Set([...chosen, ...known])].map((name) => ({ value: name, label: name }));
  return (
    <details open={error !== undefined || undefined}>
      <summary className="min-h-6 text-12 text-ink-2">
        Tools: {chosen.length === 0 ? "all that are on by default" : chosen.join(", ")}
      </summary>
      {failure !== null && <p className="text-12 text-bad">{inWords(failure).title}</p>}
      <Choices
        label="Tools"
        field={field}
        empty="the list is being read"
        options={options}
        chosen={chosen}
        error={error}
        onChange={onChange}
      />
    </details>
  );
}
