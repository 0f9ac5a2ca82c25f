import { QueryClientProvider } from "@tanstack/react-query";
import { queryClient } from "@/client/queries";
import { Refused, WaitForServer } from "@/shell/NoServer";
import { Shell } from "@/shell/Shell";
import { SignIn } from "@/shell/SignIn";
import { useUi } from "@/state/ui";
import { Skeleton } from "@/ui/Skeleton";

export function App() {
  const session = useUi((state) => state.session);
  if (session === "signed_out") return <SignIn />;
  if (session === "unknown") return <Skeleton label="the session" />;
  if (session === "waiting") return <WaitForServer />;
  if (session === "refused") return <Refused />;
  return (
    <QueryClientProvider client={queryClient}>
      <Shell />
    </QueryClientProvider>
  );
}
