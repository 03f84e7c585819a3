/**
 * Clients that others wrote, each with the version that it was tested with and what its program tells: a fact is one case. The table of
 * docs/compatibility.md names them all.
 */
export interface Suite {
  /** The package with its version, as its registry writes them. */
  readonly requirement: string
  /** The test that runs it. */
  readonly test: string
  readonly facts: Readonly<Record<string, unknown>>
  /** What it tells where it does not do what it should; docs/compatibility.md says who is right, and why. */
  readonly failures?: Readonly<Record<string, unknown>>
}

const only = process.env.SUITES_ONLY ?? ''

/** Those whose requirement has the text of `SUITES_ONLY`, so that one can be run without the packages of all others; all without it. */
export const chosen = <S extends Suite>(suites: readonly S[]): readonly S[] =>
  suites.filter(({ requirement }) => requirement.includes(only))
