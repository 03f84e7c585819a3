import fc from 'fast-check'

type Named = { readonly kind: string }
type Details<T extends Named> = { [P in Exclude<keyof T, 'kind'>]: fc.Arbitrary<T[P]> }

/** For each kind how often it comes, in about 100, and what it may be. */
export type Kinds<T extends Named> = {
  readonly [K in T['kind']]: readonly [weight: number, details: Details<Extract<T, { readonly kind: K }>>]
}

const { HOSTILE_WITHOUT, HOSTILE_ONLY } = process.env
/** While a fault is known, what else there is can be looked for without it: `HOSTILE_WITHOUT="large JSON,endless"`. */
const without = new Set((HOSTILE_WITHOUT ?? '').split(','))
/** The other way round: `HOSTILE_ONLY="quoting"`, where a lane has any of them. */
const only = new Set((HOSTILE_ONLY ?? '').split(',').filter((kind) => kind !== ''))

/** One thing that is wrong, seldom up to three. */
export function twistsOf<T extends Named>(kinds: Kinds<T>): fc.Arbitrary<readonly T[]> {
  const all = Object.entries<readonly [number, Readonly<Record<string, fc.Arbitrary<unknown>>>]>(kinds)
  const weighed = all
    .filter(([kind]) => !without.has(kind) && (!all.some(([any]) => only.has(any)) || only.has(kind)))
    .map(([kind, [weight, details]]) => {
      const arbitrary = fc.record({ kind: fc.constant(kind), ...details }, { noNullPrototype: true })
      return { weight, arbitrary: arbitrary as unknown as fc.Arbitrary<T> }
    })
  return fc.array(fc.oneof(...weighed), { minLength: 1, maxLength: 3, size: 'xsmall' })
}

/** The first one of its kind; undefined: there is none. */
export const twistOf = <T extends Named, K extends T['kind']>(twists: readonly T[], kind: K) =>
  twists.find((one): one is Extract<T, { readonly kind: K }> => one.kind === kind)
