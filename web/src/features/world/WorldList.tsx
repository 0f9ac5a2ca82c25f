import { inWords } from "@/client/http";
import type { WorldLine } from "@/client/worlds";
import { CommandButton } from "@/shell/CommandButton";
import { Link } from "@/shell/Link";
import { href, navigate } from "@/shell/route";
import { useWorlds } from "@/state/useWorlds";
import { Button } from "@/ui/Button";
import { cx } from "@/ui/cx";
import { PlusIcon } from "@/ui/icons/icons";
import { Select } from "@/ui/Select";
import { Skeleton } from "@/ui/Skeleton";

/** All worlds: a column, or where there is little room a list to choose from. */
export function WorldList({ current }: { readonly current: string | null }) {
  const { data, error, refetch } = useWorlds();
  return (
    <nav
      aria-label="Worlds"
      className="flex min-h-0 items-center gap-2 border-b border-line bg-panel p-2 @min-[720px]:flex-col @min-[720px]:items-stretch @min-[720px]:border-r @min-[720px]:border-b-0"
    >
      <CommandButton id="world.new" label="New world" icon={<PlusIcon size={14} />} />
      {error !== null && data === undefined ? (
        <p role="alert" className="text-12 text-ink-2">
          {inWords(error).title}{" "}
          <Button size="small" onClick={refetch}>
            Try again
          </Button>
        </p>
      ) : data === undefined ? (
        <Skeleton label="the worlds" />
      ) : (
        <Lines lines={data.items} current={current} />
      )}
    </nav>
  );
}

interface LinesProps {
  readonly lines: readonly WorldLine[];
  readonly current: string | null;
}

function Lines({ lines, current }: LinesProps) {
  if (lines.length === 0) return <p className="p-1 text-12 text-ink-2">No world yet.</p>;
  const options = lines.map(({ id }) => ({ value: id, label: id }));
  return (
    <>
      <Select
        bare
        label="World"
        value={current ?? ""}
        options={current === null ? [{ value: "", label: "Choose a world" }, ...options] : options}
        onChange={(id) => navigate(href("world", id))}
        className="min-w-0 flex-1 @min-[720px]:hidden"
      />
      <ul className="hidden min-h-0 flex-1 flex-col gap-0.5 overflow-auto scroll-thin @min-[720px]:flex">
        {lines.map((one) => (
          <li key={one.id}>
            <Link
              to={href("world", one.id)}
              aria-current={one.id === current ? "page" : undefined}
              className={cx(
                "block rounded-control px-2 py-1.5 -outline-offset-2 hover:bg-panel-2",
                one.id === current && "bg-panel-2 font-medium shadow-[inset_2px_0_0_var(--accent)]",
              )}
            >
              <span className="block truncate">{one.id}</span>
              <span className="block truncate text-11 text-ink-3">
                tick {one.tick} · {one.agents} agents{one.paused && " · paused"}
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </>
  );
}
