import type { Verb } from '../../frame/action.ts'
import { books } from './audit-books.ts'
import { chain } from './audit-chain.ts'
import { tail } from './audit-tail.ts'

export const audit: Verb = {
  name: 'audit',
  about: 'Who did what, and proofs over what is recorded',
  actions: { tail, chain, books },
}
