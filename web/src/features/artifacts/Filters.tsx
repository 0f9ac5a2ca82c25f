import type { Artifact } from "@/projection/graph";
import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";
import { ALL, counted, type Filter } from "./filter";

interface FiltersProps {
  readonly all: readonly Artifact[];
  readonly filter: Filter;
  readonly onChange: (filter: Filter) => void;
}

/** Words, kind and owner; each choice says how many it has. */
export function Filters({ all, filter, onChange }: FiltersProps) {
  const kinds = counted(all, "kind");
  const owners = counted(all, "owner");
  return (
    <div role="search" className="flex flex-wrap items-end gap-2 px-4 pb-2">
      <TextField
        bare
        label="Search titles, ids and contents"
        type="search"
        placeholder="Search titles, ids and contents"
        value={filter.words}
        onChange={(event) => onChange({ ...filter, words: event.target.value })}
        className="min-w-55 flex-1"
      />
      <Select
        bare
        label="Kind"
        value={filter.kind}
        options={[
          { value: "", label: "What was made" },
          { value: ALL, label: `Every kind (${all.length})` },
          ...withCurrent(kinds, filter.kind === ALL ? "" : filter.kind),
        ]}
        onChange={(kind) => onChange({ ...filter, kind })}
      />
      <Select
        bare
        label="Owner"
        value={filter.owner}
        options={[{ value: "", label: "Every owner" }, ...withCurrent(owners, filter.owner)]}
        onChange={(owner) => onChange({ ...filter, owner })}
        className="max-w-60"
      />
    </div>
  );
}

/** A choice that came by the address stays in sight, also if nothing has it. */
function withCurrent(values: readonly (readonly [string, number])[], current: string) {
  const missing = current !== "" && !values.some(([value]) => value === current);
  return [...values, ...(missing ? [[current, 0] as const] : [])].map(([value, count]) => ({
    value,
    label: `${value} (${count})`,
  }));
}
