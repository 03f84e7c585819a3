import type { Modality } from '../../protocol/wire/nodes/kinds-of-work.ts'

/** What is known of a model's work, best evidence first (§35). */
export interface WorkEvidence {
  /** By an operator; null: not declared. */
  readonly declared: readonly Modality[] | null
  /** By its server, or by its name; null: by neither, so that it is taken to write text. */
  readonly reported: Modality | null
  /** The server does not say it: `reported` comes from the name alone. */
  readonly guessed: boolean
  /** What it was supposed to do, by its name or on trial, and has done. */
  readonly answered: readonly Modality[]
}

export interface ModelWork {
  /** The kinds of work that requests are placed for, the main one first; never empty. */
  readonly serves: readonly Modality[]
  /** Its owner may try another kind of work: what it serves is a guess. */
  readonly guessed: boolean
}

const writes: readonly Modality[] = ['chat']

/** Kinds of work that are tried: a request of text, of which a server that cannot do it says so at once. */
export const triedWork: ReadonlySet<Modality> = new Set(['chat', 'embedding', 'rerank'])

/** What counts: the declared, else the reported, else what was answered; a name only where nothing was. */
export function workOf({ declared, reported, guessed, answered }: WorkEvidence): ModelWork {
  if (declared !== null && declared.length > 0) return { serves: declared, guessed: false }
  if (!guessed || answered.length === 0) return { serves: reported === null ? writes : [reported], guessed }
  // A name that says nothing does not speak against chat, which most models do.
  const supposed = reported === null && !answered.includes('chat') ? writes : []
  return { serves: [...answered, ...supposed], guessed }
}
