import type { Verb } from '../../frame/action.ts'
import { books } from './audit-books.ts'
import { chain } from './audit-chain.ts'
import { exported } from './audit-export.ts'
import { tail } from './audit-tail.ts'

export const audit: Verb = {
  name: 'audit',
  about: 'Show who did what, and prove that the records are complete',
  actions: { tail, chain, books, export: exported },
}
