import { type Motion, setUi, type Theme, useUi } from "@/state/ui";
import { Select } from "@/ui/Select";
import { Section } from "./Section";

const THEMES: readonly { readonly value: Theme; readonly label: string }[] = [
  { value: "system", label: "As the system" },
  { value: "dark", label: "Dark" },
  { value: "light", label: "Light" },
];
const MOTIONS: readonly { readonly value: Motion; readonly label: string }[] = [
  { value: "system", label: "As the system" },
  { value: "reduced", label: "Nothing moves" },
];

/** How this browser shows things. */
export function Look() {
  const theme = useUi((state) => state.theme);
  const motion = useUi((state) => state.motion);
  return (
    <Section title="Look" note="kept in this browser">
      <div className="flex flex-wrap gap-4">
        <Select
          label="Theme"
          value={theme}
          options={THEMES}
          onChange={(chosen) => setUi({ theme: chosen })}
          className="w-50"
        />
        <Select
          label="Motion"
          value={motion}
          options={MOTIONS}
          onChange={(chosen) => setUi({ motion: chosen })}
          className="w-50"
        />
      </div>
    </Section>
  );
}
