import { canAct, type Command } from "@/commands/command";
import { href, navigate } from "@/shell/route";

export const commands: readonly Command[] = [
  {
    id: "schedule.new",
    label: "Make a schedule",
    group: "Schedules",
    words: "create new cron again every night repeat",
    enabled: canAct,
    run: () => navigate(href("schedules", null, { do: "new" })),
  },
];
