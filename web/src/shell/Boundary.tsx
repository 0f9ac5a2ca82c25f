import { Component, type ReactNode } from "react";
import { ErrorState } from "@/ui/ErrorState";

interface BoundaryProps {
  /** What failed, for the sentence. */
  readonly what: string;
  /** A new value tries again, such as the address. */
  readonly retryKey: string;
  readonly children: ReactNode;
}

/** A part of the screen that breaks says so in its own place; the rest goes on. */
export class Boundary extends Component<BoundaryProps, { readonly error: unknown }> {
  override state: { readonly error: unknown } = { error: null };

  static getDerivedStateFromError(error: unknown): { readonly error: unknown } {
    return { error };
  }

  override componentDidUpdate(before: BoundaryProps): void {
    if (before.retryKey !== this.props.retryKey && this.state.error !== null) this.setState({ error: null });
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    const reason = error instanceof Error ? error.message : String(error);
    return (
      <ErrorState
        title={`${this.props.what} cannot be shown.`}
        advice={`${reason}. Reload the page if trying again does not help; the runs go on.`}
        onRetry={() => this.setState({ error: null })}
      />
    );
  }
}
