import { useCallback, useEffect, useMemo } from "react";
import { inWords } from "@/client/http";
import { useServer } from "@/client/server";
import { useMayAct } from "@/shell/useMayAct";
import { CommandButton } from "@/shell/CommandButton";
import { NoSuch } from "@/shell/NoSuch";
import { href, navigate, useRoute } from "@/shell/route";
import type { ScreenProps } from "@/shell/screens";
import { useIsPhone } from "@/shell/useIsPhone";
import { useIsMissing, useIsUnread } from "@/state/log";
import { select, useUi } from "@/state/ui";
import { Button } from "@/ui/Button";
import { cx } from "@/ui/cx";
import { PlusIcon } from "@/ui/icons/icons";
import { PageHead } from "@/ui/PageHead";
import { Skeleton } from "@/ui/Skeleton";
import { Table } from "@/ui/Table";
import { bytes } from "@/ui/sizes";
import { CardList } from "./CardList";
import { columns } from "./columns";
import { type Filter, type Found, isFiltered, readFilter, writeFilter } from "./filter";
import { Filters } from "./Filters";
import { NewArtifact } from "./NewArtifact";
import { NothingFound } from "./NothingFound";
import { UploadButton } from "./UploadButton";
import { UploadList } from "./UploadList";
import { uploadFiles } from "./uploads";
import { HITS_MAX, useArtifacts } from "./useArtifacts";
import { useDropZone } from "./useDropZone";

const idOfRow = ({ artifact }: Found) => artifact.id;

/** What was made, by whom, and how to find it again. */
export default function ArtifactsScreen({ id }: ScreenProps) {
  const { query } = useRoute();
  const filter = useMemo(() => readFilter(query), [query]);
  const { all, found, search } = useArtifacts(filter);
  const isPhone = useIsPhone();
  const isLoading = useIsUnread() && all.length === 0;
  const selection = useUi((state) => state.selection);
  const may = useMayAct();
  const why = may.ok ? null : may.why;
  const zone = useDropZone((files) => why === null && uploadFiles(files));
  const most = useServer().data?.upload_bytes_max;
  const selected = selection?.kind === "artifact" ? selection.id : null;

  const isMissing = useIsMissing("artifacts", id);

  useEffect(() => {
    if (id !== null && !isMissing) select("artifact", id);
  }, [id, isMissing]);

  const show = (next: Filter) => navigate(href("artifacts", null, writeFilter(next)), { replace: true });
  const open = useCallback(
    (one: string) => {
      navigate(href("artifacts", one, writeFilter(filter)), { replace: true });
      select("artifact", one);
    },
    [filter],
  );
  const nothing = (
    <NothingFound
      isFiltered={isFiltered(filter)}
      isBusy={search.isBusy}
      onClear={() => show({ kind: "", owner: "", words: "" })}
    />
  );

  return (
    <div {...zone.on} className="relative flex h-full flex-col">
      <PageHead title="Artifacts" note={isLoading ? undefined : inTotal(found.length, all.length, filter)}>
        {why === null && (
          <span className="text-12 text-ink-3 max-tablet:hidden">
            Drop files here{most !== undefined && `, up to ${bytes(most)} each`}
          </span>
        )}
        <UploadButton may={may} />
        <CommandButton id="artifact.new" icon={<PlusIcon size={12} />} label="Write" />
      </PageHead>
      <Filters all={all} filter={filter} onChange={show} />
      {search.error !== null && filter.words !== "" && (
        <p role="alert" className="flex items-center gap-2 px-4 pb-2 text-12 text-warn">
          Contents were not searched: {inWords(search.error).title} {inWords(search.error).advice}
          <Button size="small" onClick={search.retry}>
            Search again
          </Button>
        </p>
      )}
      {search.isCut && (
        <p className="px-4 pb-2 text-12 text-ink-2">
          Of contents only the newest {HITS_MAX} matches are looked at; another word narrows them.
        </p>
      )}
      <UploadList />
      <div className="min-h-0 flex-1">
        {isLoading ? (
          <Skeleton label="artifacts" rows={8} />
        ) : isMissing && id !== null ? (
          <NoSuch what="artifact" id={id} to={href("artifacts")} link="See all artifacts" />
        ) : isPhone && found.length > 0 ? (
          <CardList found={found} selected={selected} onSelect={open} />
        ) : (
          <Table
            label="Artifacts"
            columns={columns}
            rows={found}
            rowId={idOfRow}
            className="px-2"
            selected={selected}
            onSelect={(row) => open(row.artifact.id)}
            empty={nothing}
          />
        )}
      </div>
      <p
        aria-hidden={!zone.isOver}
        className={cx(
          "pointer-events-none absolute inset-2 z-10 grid place-items-center rounded-card border-2 border-dashed border-accent bg-panel text-15",
          !zone.isOver && "hidden",
        )}
      >
        {why ?? "Drop: each file becomes a document or a dataset"}
      </p>
      {query["do"] === "new" && may.ok && <NewArtifact onClose={() => show(filter)} />}
    </div>
  );
}

function inTotal(shown: number, all: number, filter: Filter): string {
  if (filter.words.trim() !== "") return `${shown} found`;
  if (filter.kind === "" && filter.owner === "")
    return `${shown} made; ${all} with agents, tasks and the like`;
  return `${shown} of ${all}`;
}
