import type { ReactNode } from "react";
import { inWords } from "@/client/http";
import { Button } from "@/ui/Button";
import { cx } from "@/ui/cx";
import { PlusIcon } from "@/ui/icons/icons";
import { Select } from "@/ui/Select";
import { Skeleton } from "@/ui/Skeleton";
import { useOneStop } from "@/ui/useOneStop";
import { CommandButton } from "./CommandButton";
import { Link } from "./Link";
import { href, navigate } from "./route";

interface SideListProps<Line> {
  /** Also the screen that shows one. */
  readonly noun: "chat" | "world";
  /** Undefined until they are here. */
  readonly lines: readonly Line[] | undefined;
  readonly error: Error | null;
  readonly onRetry: () => void;
  readonly current: string | null;
  /** What stands below a name. */
  readonly about: (line: Line) => ReactNode;
  /** What stands in the place of an id; "" for none. */
  readonly titleOf?: (line: Line) => string;
}

/** All of a kind: a column, or where there is little room a list to choose from. */
export function SideList<Line extends { readonly id: string }>({
  error,
  onRetry,
  ...more
}: SideListProps<Line>) {
  const { noun, lines } = more;
  return (
    <nav
      aria-label={noun === "chat" ? "Chats" : "Worlds"}
      className="flex min-h-0 items-center gap-2 border-b border-line bg-panel p-2 @min-[720px]:flex-col @min-[720px]:items-stretch @min-[720px]:border-r @min-[720px]:border-b-0"
    >
      <CommandButton id={`${noun}.new`} label={`New ${noun}`} icon={<PlusIcon size={14} />} />
      {error !== null && lines === undefined ? (
        <p role="alert" className="text-12 text-ink-2">
          {inWords(error).title}{" "}
          <Button size="small" onClick={onRetry}>
            Try again
          </Button>
        </p>
      ) : lines === undefined ? (
        <Skeleton label={`the ${noun}s`} />
      ) : (
        <Lines {...more} lines={lines} />
      )}
    </nav>
  );
}

interface LinesProps<Line> extends Pick<SideListProps<Line>, "noun" | "current" | "about" | "titleOf"> {
  readonly lines: readonly Line[];
}

function Lines<Line extends { readonly id: string }>(props: LinesProps<Line>) {
  const { noun, lines, current, about, titleOf } = props;
  const nameOf = (one: Line) => titleOf?.(one) || one.id;
  const stop = useOneStop<HTMLUListElement>();
  if (lines.length === 0) return <p className="p-1 text-12 text-ink-2">No {noun} yet.</p>;
  const options = lines.map((one) => ({ value: one.id, label: nameOf(one) }));
  return (
    <>
      <Select
        bare
        label={noun === "chat" ? "Chat" : "World"}
        value={current ?? ""}
        options={current === null ? [{ value: "", label: `Choose a ${noun}` }, ...options] : options}
        onChange={(id) => navigate(href(noun, id))}
        className="min-w-0 flex-1 @min-[720px]:hidden"
      />
      <ul
        {...stop}
        className="hidden min-h-0 flex-1 flex-col gap-0.5 overflow-auto scroll-thin @min-[720px]:flex"
      >
        {lines.map((one) => (
          <li key={one.id}>
            <Link
              to={href(noun, one.id)}
              aria-current={one.id === current ? "page" : undefined}
              className={cx(
                "block rounded-control px-2 py-1.5 -outline-offset-2 hover:bg-panel-2",
                one.id === current && "bg-panel-2 font-medium shadow-[inset_2px_0_0_var(--accent)]",
              )}
            >
              <span className="block truncate">{nameOf(one)}</span>
              <span className="block truncate text-11 text-ink-3">{about(one)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </>
  );
}
