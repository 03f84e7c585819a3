import type { Candidate } from '../../../src/machines/mixture/strategies/strategy.ts'

export const said = (content: string) => ({ role: 'assistant', content })
export type Said = readonly [text: string, weight?: number]
export const candidates = (...answers: readonly Said[]): Candidate[] =>
  answers.map(([text, weight = 1], index) => ({ index, weight, message: said(text) }))
