import type { ProblemCode } from '../../errors.ts'

/** What a person reads of one code. A text in backticks is code. */
export interface ErrorHelp {
  /** What has happened, in full sentences. */
  readonly means: string
  /** The next step. */
  readonly next: string
}

export interface HelpFamily {
  readonly title: string
  readonly codes: Readonly<Partial<Record<ProblemCode, ErrorHelp>>>
}
