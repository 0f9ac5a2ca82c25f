import { QueryClientProvider } from "@tanstack/react-query";
import { queryClient } from "@/client/queries";
import { boot } from "@/shell/boot";
import { Shell } from "@/shell/Shell";
import { SignIn } from "@/shell/SignIn";
import { useUi } from "@/state/ui";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";

export function App() {
  const session = useUi((state) => state.session);
  if (session === "signed_out") return <SignIn />;
  if (session === "unknown") return <Skeleton label="the session" />;
  if (session === "unreachable") {
    return (
      <main className="h-full">
        <ErrorState
          title="The server does not answer."
          advice="Check that `artelier up` is running, then try again."
          onRetry={() => void boot()}
        />
      </main>
    );
  }
  return (
    <QueryClientProvider client={queryClient}>
      <Shell />
    </QueryClientProvider>
  );
}
