import type { ReactNode } from "react";
import { useGraph } from "@/state/log";
import { select, setUi } from "@/state/ui";
import { IconButton } from "@/ui/IconButton";
import { CloseIcon } from "@/ui/icons/icons";

interface HeadProps {
  readonly icon: ReactNode;
  readonly name: string;
  readonly id: string;
  /** At the right: the status. */
  readonly status?: ReactNode;
  readonly children?: ReactNode;
}

/** The top of the inspector: what is selected, where it belongs, and what can be done with it. */
export function Head({ icon, name, id, status, children }: HeadProps) {
  const slash = id.indexOf("/");
  const mission = id.slice(0, Math.max(0, slash));
  const isOfMission = useGraph().missions.has(mission);
  return (
    <header className="flex shrink-0 flex-col gap-2 px-4 pt-3 pb-2">
      <div className="flex items-start justify-between gap-2">
        <h2 className="flex min-w-0 items-center gap-2 text-15">
          {icon}
          <span className="min-w-0 break-words">{name}</span>
        </h2>
        <span className="flex shrink-0 items-center gap-2 pt-0.5">
          {status}
          <IconButton
            label="Close the inspector"
            size="small"
            icon={<CloseIcon size={12} />}
            onClick={() => setUi({ selection: null })}
          />
        </span>
      </div>
      <p className="num min-w-0 break-all text-ink-3">
        {isOfMission ? (
          <>
            <button
              type="button"
              className="hover:text-ink hover:underline"
              onClick={() => select("mission", mission)}
            >
              {mission}
            </button>
            /{id.slice(slash + 1)}
          </>
        ) : (
          id
        )}
      </p>
      {children}
    </header>
  );
}
