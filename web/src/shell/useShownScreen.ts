import { useRoute } from "./route";
import { screenComponent } from "./screens";
import { useIsPhone } from "./useIsPhone";

/** Id of the screen that the address asks for. Where a canvas cannot be, lists take its place. */
export function useShownScreen(): string {
  const route = useRoute();
  const isPhone = useIsPhone();
  if (route.screen === "canvas" && (isPhone || screenComponent("canvas") === undefined)) return "overview";
  return route.screen;
}
