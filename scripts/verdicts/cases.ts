import type { Bases, Case } from './case.ts'
import { jsonCases, payoutCases } from './file-cases.ts'
import { noteCases, policyCases } from './note-cases.ts'
import { memoryCases, proofCases } from './proof-cases.ts'
import { besideCases, factCases, openedCases, signatureCases, timeCases } from './receipt-cases.ts'

/** All rows of the table, in its order. */
export function casesOf(made: Bases): readonly Case[] {
  return [
    ...signatureCases(made),
    ...factCases(made, 'gateway'),
    ...factCases(made, 'bound'),
    ...factCases(made, 'timed'),
    ...timeCases(),
    ...proofCases(made),
    ...noteCases(made),
    ...policyCases(made),
    ...memoryCases(made),
    ...openedCases(),
    ...besideCases(made),
    ...payoutCases(made),
    ...jsonCases(),
  ]
}
