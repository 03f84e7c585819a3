import { synthesize } from './synthesize.ts'
import { vote } from './vote.ts'
import { weighted } from './weighted.ts'

/** A new strategy is one file and one line here. The union on the wire, its state and the error text derive from it. */
export const strategies = { synthesize, vote, weighted } as const

export type StrategyName = keyof typeof strategies
export const strategyNames = Object.keys(strategies) as readonly StrategyName[]
export const isStrategyName = (value: unknown): value is StrategyName =>
  typeof value === 'string' && Object.hasOwn(strategies, value)
