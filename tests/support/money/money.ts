import { expect } from 'bun:test'
import { Ledger } from '../../../src/actors/money/ledger.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import type { TestDatabase } from '../run/postgres.ts'
import { chargeFor } from './ledger.ts'
import { testMacs } from './receipt-macs.ts'

export interface PaidWork {
  readonly customerId: string
  readonly nodeId: string
  readonly amountWei: bigint
  readonly feeBps?: number
  readonly held?: boolean
}

/** One paid request as the gateway writes it: reserve, then settle. Resolves with its receipt hash. */
export async function payFor({ db, sql }: Pick<TestDatabase, 'db' | 'sql'>, work: PaidWork): Promise<string> {
  const ledger = new Ledger({ macs: testMacs, db, sql, log: createLog('silent', () => {}) })
  const { customerId, amountWei } = work
  const held = await ledger.reserve({ id: newId('req'), customerId, amountWei })
  const charge = chargeFor(customerId, amountWei, {
    nodeId: work.nodeId,
    ...(work.feeBps === undefined ? {} : { feeBps: work.feeBps }),
  })
  const receipt = { ...charge.receipt, ...(work.held === true ? { status: 'held' as const } : {}) }
  const settled = await ledger.settle(held, { ...charge, receipt })
  expect(settled).toEqual({ outcome: 'settled', chargedWei: amountWei })
  return receipt.hash
}
