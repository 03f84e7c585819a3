import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
// As in an agent, it registers the format of times.
import 'elysia'
import { openPrivateFolder } from '../../src/host/private-files.ts'
import { createLog } from '../../src/log.ts'
import { createAlarms, readAlarms } from '../../src/node/membership/alarms.ts'
import { createPayeeWatch } from '../../src/node/membership/payee-watch.ts'
import { signingKey } from '../../src/protocol/signing/ed25519.ts'
import { isoTime, minuteMs } from '../../src/time.ts'

/**
 * Symptom: a node whose clock was some minutes behind the gateway's, as far as the gateway takes its signatures, stated another payee and then raised
 * `payee_changed`: its gateway was accused of a theft.
 * Cause: what the node had earned before its statement, for the payee before, was later than the statement by the node's clock.
 * Fix: an alarm leaves as much time for the clocks as a signature may be old.
 */
const nowMs = Date.now()
const minutesAgo = (minutes: number) => isoTime(nowMs - minutes * minuteMs)
const [before, stated] = [`0x${'a1'.repeat(20)}`, `0x${'b2'.repeat(20)}`]
let payouts: readonly object[] = []
const earned = (id: string, minutes: number) => ({
  entry_id: id,
  private_job_id: null,
  receipt_hash: `0x${'00'.repeat(32)}`,
  payee: before,
  amount_wei: '1',
  status: 'accrued',
  settlement_status: 'pending',
  payout_batch_id: null,
  settled_at: null,
  created_at: minutesAgo(minutes),
  updated_at: minutesAgo(minutes),
})
const gateway = Bun.serve({
  port: 0,
  fetch: () => {
    const summary = { total_payout_wei: '1', settlement_statuses: [] }
    return Response.json({ status: 'ok', node_id: 'node_1', generated_at: minutesAgo(0), summary, payouts })
  },
})
const scratch = mkdtempSync(join(tmpdir(), 'penstock-payee-'))
afterAll(async () => {
  await gateway.stop(true)
  rmSync(scratch, { recursive: true })
})

test('§36: what went to the payee before is no theft by a clock that is behind, and what came later is one', async () => {
  const log = createLog('silent', () => {})
  const folder = openPrivateFolder(join(scratch, 'node'))
  // By the gateway's clock five minutes ago, by the node's ten.
  writeFileSync(join(folder.path, 'payee.json'), JSON.stringify({ payee: stated, signed_at: minutesAgo(10) }))
  const asking = { identity: signingKey(new Uint8Array(32).fill(7)), gatewayUrl: gateway.url.origin, nodeId: 'node_1' }
  const watch = createPayeeWatch({ ...asking, folder, log, alarms: createAlarms(folder, log) })
  payouts = [earned('pay_before', 5.5)]
  await watch.look()
  expect(readAlarms(folder)).toEqual([])
  payouts = [earned('pay_stolen', 3), ...payouts]
  await watch.look()
  expect(readAlarms(folder)).toMatchObject([{ code: 'payee_changed', subject: 'pay_stolen' }])
})
