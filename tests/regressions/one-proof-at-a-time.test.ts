import { expect, test } from 'bun:test'
import type { BooksReport } from '../../src/protocol/wire/money/log.ts'
import type { LedgerProof } from '../../src/protocol/wire/money/money.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/** Each open page of the console asks for the proof every 30 s, and a proof may take minutes: the scans piled up. */
const gateway = await fixture(startTestGateway({ env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000' } }))

const asks = 20

/** Statements that stand at a lock. */
const standing = () => lockWaits(gateway.database.sql)

async function reportsAskedAtOnce<T>(path: string): Promise<readonly T[]> {
  let asked: Promise<T>[] = []
  await gateway.database.sql.begin(async (tx) => {
    await tx`lock table fee_rows in access exclusive mode`
    asked = Array.from({ length: asks }, () => gateway.admin<T>('GET', path))
    await waitUntil('a scan stands', async () => (await standing()) > 0)
    // What is asked on later connections has been answered: those before it have come in.
    for (let at = 0; at < asks; at++) await gateway.admin('GET', '/v1/admin/nodes')
    expect(await standing()).toBe(1)
  })
  return Promise.all(asked)
}

test('§13: many who ask for the proof of the books at once cost one scan at a time', async () => {
  const proofs = await reportsAskedAtOnce<LedgerProof>('/v1/admin/ledger/proof')
  expect(proofs.map(({ balanced }) => balanced)).toEqual(proofs.map(() => true))
})

test('§31: the same for the check row by row', async () => {
  const reports = await reportsAskedAtOnce<BooksReport>('/v1/admin/ledger/check')
  expect(reports.map(({ sound }) => sound)).toEqual(reports.map(() => true))
})
