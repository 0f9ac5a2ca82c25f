import { useState } from "react";
import { counted } from "@/projection/counted";
import { inWords } from "@/client/http";
import { Button } from "@/ui/Button";
import { Select } from "@/ui/Select";
import { ProfileDialog } from "./ProfileDialog";
import { useProfiles } from "./useProfiles";

interface ProfilePickerProps {
  /** Id of the profile; "" for plain model calls. */
  readonly value: string;
  readonly onChange: (profile: string) => void;
  readonly disabled: boolean;
}

/** Which operations stand around each reply; a profile can be looked at, changed, checked and stored. */
export function ProfilePicker({ value, onChange, disabled }: ProfilePickerProps) {
  const profiles = useProfiles();
  const [isEditing, setEditing] = useState(false);
  const items = profiles.data?.items ?? [];
  const known = new Map(items.map((one) => [one.profile_id, one])); // a stored one hides the shipped one
  if (value !== "" && !known.has(value)) known.set(value, { ...UNKNOWN, profile_id: value });
  const chosen = known.get(value);
  const hint =
    value === ""
      ? "Each reply is one plain model call."
      : chosen === undefined || chosen.operations === 0
        ? "Its versions are listed under Artifacts."
        : `${counted(chosen.operations, "operation")}${chosen.enabled ? "" : ", switched off"}; writes ${
            chosen.writes.map((tag) => `art.${tag}`).join(", ") || "nothing"
          }.`;
  return (
    <div className="flex flex-col gap-1.5">
      <Select
        label="Profile of operations"
        value={value}
        disabled={disabled}
        options={[
          { value: "", label: "None" },
          ...[...known.values()].map((one) => ({
            value: one.profile_id,
            label: `${one.name === "" ? one.profile_id : `${one.name} (${one.profile_id})`}`,
          })),
        ]}
        onChange={onChange}
        hint={profiles.error === null ? hint : inWords(profiles.error).title}
      />
      <div>
        <Button size="small" variant="quiet" onClick={() => setEditing(true)}>
          {value === "" ? "Write a profile …" : "Look at it, or change it …"}
        </Button>
      </div>
      {(profiles.data?.invalid ?? []).length > 0 && (
        <p className="text-11 text-warn">Not valid any more: {profiles.data?.invalid.join(", ")}</p>
      )}
      {isEditing && (
        <ProfileDialog
          base={value}
          onClose={() => setEditing(false)}
          onSaved={(profile) => {
            setEditing(false);
            onChange(profile);
          }}
        />
      )}
    </div>
  );
}

const UNKNOWN = { source: "", name: "", version: 0, enabled: true, operations: 0, writes: [] };
