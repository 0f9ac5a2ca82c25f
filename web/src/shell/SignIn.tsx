import { type FormEvent, useState } from "react";
import { inWords } from "@/client/http";
import { signIn } from "@/client/session";
import { useUi } from "@/state/ui";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/TextField";
import { boot } from "./boot";

/** Nobody is signed in. Locally the way in is a link, on a shared server a name and a password. */
export function SignIn() {
  const isByPassword = useUi((state) => state.isByPassword);
  return (
    <main className="grid h-full place-items-center p-6">
      <div className="flex w-full max-w-90 flex-col gap-4 rounded-card border border-line bg-panel p-6">
        <h1 className="text-20">Artelier</h1>
        {isByPassword ? (
          <PasswordForm />
        ) : (
          <>
            <p>
              Open the link that <code className="num">artelier up</code> printed in its terminal.
            </p>
            <p className="text-ink-2">
              A link works once and for a short time. If yours is used up, press Enter in that terminal: it
              prints another.
            </p>
            <Button onClick={() => void boot()}>I have opened it, look again</Button>
          </>
        )}
      </div>
    </main>
  );
}

function PasswordForm() {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await signIn(user, password);
      await boot();
    } catch (reason) {
      const { title, advice } = inWords(reason);
      setError(`${title} ${advice}`.trim());
    } finally {
      setBusy(false);
    }
  };

  return (
    <form className="flex flex-col gap-3" onSubmit={(event) => void submit(event)}>
      <TextField
        label="Name"
        name="user"
        autoComplete="username"
        required
        value={user}
        onChange={(event) => setUser(event.target.value)}
      />
      <TextField
        label="Password"
        name="password"
        type="password"
        autoComplete="current-password"
        required
        value={password}
        onChange={(event) => setPassword(event.target.value)}
      />
      <p role="alert" className="text-bad">
        {error}
      </p>
      <Button type="submit" variant="primary" busy={isBusy}>
        Sign in
      </Button>
    </form>
  );
}
