import { modalities } from '../../protocol/wire/nodes/agent.ts'
import { UsageFault } from './failure.ts'

const words = modalities.join(', ')

/** What models are for, where their servers do not say it and their names mislead (§35). */
export const servesOption = (about: string) =>
  ({ kind: 'text', value: 'WORK', about: `${about}: ${words}. \`none\`: what its nodes say` }) as const

/** undefined: not given; null: what the nodes say. */
export function servesGiven(text: string | undefined): readonly string[] | null | undefined {
  if (text === undefined) return undefined
  if (text === 'none') return null
  const given = text.split(',').map((word) => word.trim())
  const known: readonly string[] = modalities
  if (given.some((word) => !known.includes(word))) throw new UsageFault(`--serves takes ${words}, with commas between`)
  return [...new Set(given)]
}
