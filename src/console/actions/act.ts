import { effect, signal } from '@preact/signals'
import { token } from '../state/session.ts'

/** What was typed into a form, by the names of its fields. */
export type Values = Readonly<Record<string, string>>

export interface Choice {
  readonly value: string
  readonly label: string
}

export interface ActField {
  readonly name: string
  readonly label: string
  readonly kind?: 'text' | 'number' | 'secret' | 'choice' | 'moment'
  /** The least number; 1 unless it is given. */
  readonly min?: number
  readonly hint?: string
  readonly required?: boolean
  readonly pattern?: string
  readonly of?: readonly Choice[]
  readonly value?: string
}

/** One call of the gateway. `action` is its row of the approval policy. */
export interface Step {
  readonly action: string
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  /** Absent: the route reads none, and the reason travels in a header. */
  readonly body?: Readonly<Record<string, unknown>>
}

/** Sends a step with the reason and the second admin's token that its row asks for. */
export type Send = (step: Step) => Promise<unknown>

export interface Verdict {
  readonly good: boolean
  readonly says: string
}

/** What a row says, by the words that a person knows. */
export type Says = Readonly<Record<string, string>>

export interface SeenRow<R = unknown> {
  /** null: there is no such row. */
  readonly etag: string | null
  readonly says: Says
  /** All of it, for the way back. */
  readonly row: R
}

/** A change of a row that was read before: the gateway refuses it where somebody has changed the row since. */
export interface Editing {
  readonly seen: SeenRow
  /** The row as it is now. */
  readonly read: () => Promise<SeenRow>
}

/** Something that is shown once, to be copied. */
export interface Shown {
  readonly label: string
  readonly text: string
}

/**
 * One thing that a person can do. Roles, reason, typed confirmation and second approver come from the rows of the
 * approval policy; whatever cannot be undone has `confirm`.
 */
export interface Act {
  /** Its rows of the approval policy. */
  readonly actions: readonly string[]
  readonly verb: string
  /** On its button in a menu. Absent: the verb. */
  readonly button?: string
  /** `Drain rack-1`. */
  readonly title: string
  readonly about: string
  readonly fields?: readonly ActField[]
  /** To be typed where the policy names no text of its own. */
  readonly confirm?: string
  /** Something is gone for good, or refused from now on: its button stands in a menu. */
  readonly destroys?: true
  readonly editing?: Editing
  /** Looks at what was typed before it is sent; null: there is nothing to look at yet. */
  readonly check?: (values: Values, signal: AbortSignal) => Promise<Verdict> | null
  readonly run: (values: Values, send: Send) => Promise<unknown>
  readonly shows?: (answer: never) => readonly Shown[]
  /** What it shows can be asked for again. Absent: it is shown this once. */
  readonly again?: true
  /** `rack-1 gets no new work.` */
  readonly done: string
  /** What of it was refused, and how to do it still, while the rest stands; null: nothing. */
  readonly lacks?: (answer: never) => string | null
  /** `before`: the row that the change was made of, where it is one of a row. */
  readonly undo?: (answer: never, values: Values, before: SeenRow | null) => Act
}

/** What the form on the page is for. Each has a form of its own, also the same act again. */
export const acting = signal<{ readonly act: Act; readonly opening: number } | null>(null)
let openings = 0
export const act = (given: Act): void => {
  acting.value = { act: given, opening: ++openings }
}

/** What was done last. */
export const lastDone = signal<{ readonly says: string; readonly undo: Act | null } | null>(null)
effect(() => {
  // The next person who signs in may be another one.
  if (token.value !== null) return
  acting.value = null
  lastDone.value = null
})
