import { shortName } from "@/projection/event";
import { taskWords } from "@/projection/status";
import { TONE_OF } from "@/shell/meaning";
import { useGraph } from "@/state/log";
import { Status } from "@/ui/Badge";
import { TaskIcon } from "@/ui/icons/icons";
import { Head } from "../parts/Head";
import { TaskDetails } from "./TaskDetails";

/** A task that was selected. */
export function TaskInspector({ id }: { readonly id: string }) {
  const task = useGraph().tasks.get(id);
  const said = task === undefined ? undefined : taskWords(task);
  return (
    <>
      <Head
        icon={<TaskIcon />}
        name={shortName(id)}
        id={id}
        status={said && <Status tone={TONE_OF[said.meaning]}>{said.word}</Status>}
      />
      <div className="border-t border-line">
        <TaskDetails key={id} id={id} />
      </div>
    </>
  );
}
