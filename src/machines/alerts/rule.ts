import type { Condition } from './expression.ts'

/** A rule by which something is wrong: for Prometheus in `ops/alerts.yaml`, and for the gateway itself. */
export interface Rule {
  readonly name: string
  readonly severity: 'critical' | 'warning'
  /** For each series of it the alert fires. */
  readonly condition: Condition
  /** How long it must hold before, ms; 0: it fires at once. */
  readonly forMs: number
  /** One line. `{instance}` is a label of the series, `{value}` its value; `summary.ts` has the forms of values. */
  readonly summary: string
  /** When it fires, for a person: Markdown with links as in docs/operations. */
  readonly when: string
  /** What to look at and what to do, in the same form. */
  readonly mends: string
  /** Why only somebody outside sees it, in a sentence; absent: the gateway evaluates it. */
  readonly outside?: string
}

/** Gives a rule the type of its name. */
export const rule = <const N extends string>(
  name: N,
  about: Omit<Rule, 'name' | 'forMs'> & { readonly forMs?: number },
): Rule & { readonly name: N } => ({ forMs: 0, ...about, name })
