import { expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ledger } from '../../../src/actors/money/ledger.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { payeeMessage } from '../../../src/protocol/signing/signatures.ts'
import { isoTime } from '../../../src/time.ts'
import { commandLine } from '../../cli/command-line.ts'
import { dialledAgent, newAccount } from '../../support/gateways/accounts.ts'
import { json, startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { chargeFor } from '../../support/money/ledger.ts'
import { testMacs } from '../../support/money/receipt-macs.ts'
import { tamper } from '../../support/money/tampering.ts'
import { fixture } from '../../support/run/fixture.ts'

const [first, second, thief] = ['a1', 'b2', 'ff'].map((pair) => `0x${pair.repeat(20)}`) as [string, string, string]

const gateway = await fixture(startTestGateway(stillLog))
const { id: customerId } = await newAccount(gateway, '100000')
const agent = await fixture(dialledAgent(gateway, customerId, { payoutAddress: first }))
const cli = await fixture(commandLine({}))
const ledger = new Ledger({ ...gateway.database, macs: testMacs, log: createLog('silent', () => {}) })

/** The node earns. Resolves with the payout. */
async function earn(): Promise<string> {
  const charge = chargeFor(customerId, 1_000n, { nodeId: agent.nodeId })
  const { hash } = charge.receipt
  const reservation = await ledger.reserve({ id: newId('req'), customerId, amountWei: 2_000n })
  await ledger.settle(reservation, charge)
  const [payout] = await gateway.database.sql<
    { id: string }[]
  >`select entry_id as id from payouts where receipt_hash = ${hash}`
  await gateway.gateway.sequencer.catchUp()
  return payout?.id ?? ''
}
const shown = async () => json(await gateway.ask('GET', `/v1/admin/nodes/${agent.nodeId}`, { as: 'operator' }))
const faults = async () => (await gateway.gateway.checkBooks()).faults.map(({ rule, subject }) => `${rule}: ${subject}`)
const patch = (payee: string | null) =>
  gateway.ask('PATCH', `/v1/admin/nodes/${agent.nodeId}`, { as: 'admin', json: { payout_address: payee, reason: 'r' } })
const statusOf = async () => {
  const { out } = await cli.run(['node', 'status', '--data-dir', agent.node.folder, '--json'])
  return JSON.parse(out) as { payee: string; alarms: { code: string; subject: string }[] }
}

test('§36: the payee of an enrolment is the node’s own statement: in the log, shown as such, and no operator’s to change', async () => {
  expect(await shown()).toMatchObject({ payout_address: first, payout_address_by: 'node' })
  await gateway.gateway.sequencer.catchUp()
  expect([...(await gateway.database.sql`select kind from log_entries where kind = 'payee'`)]).toHaveLength(1)
  for (const payee of [thief, null]) expect((await json(await patch(payee))).code).toBe('invalid_state')
  expect((await patch(first)).status).toBe(200)
  expect(await shown()).toMatchObject({ payout_address: first, payout_address_by: 'node' })
  expect(await statusOf()).toMatchObject({ payee: first, alarms: [] })
})

let stolen = ''
test('§36: earnings that go elsewhere are a fault of the books and an alarm of the node', async () => {
  // The node has said so some minutes ago: what is under way at the time may go to the payee before.
  await tamper(gateway, ["update payee_statements set created_at = created_at - interval '5 minutes'"])
  const signedAt = isoTime(Date.now() - 420_000)
  writeFileSync(join(agent.node.folder, 'payee.json'), JSON.stringify({ payee: first, signed_at: signedAt }))
  await earn()
  await agent.node.payeeWatch?.look()
  expect([await faults(), (await statusOf()).alarms]).toEqual([[], []])
  await tamper(gateway, [`update nodes set payout_address = '${thief}' where node_id = '${agent.nodeId}'`])
  stolen = await earn()
  expect(await faults()).toEqual([`every payee is the one that its node stated: ${stolen}`])
  await agent.node.payeeWatch?.look()
  await agent.node.payeeWatch?.look()
  expect((await statusOf()).alarms).toMatchObject([{ code: 'payee_changed', subject: stolen }])
})

test('§36: the node changes its payee by its signature alone, for what it earns later', async () => {
  await tamper(gateway, [`update nodes set payout_address = '${first}' where node_id = '${agent.nodeId}'`])
  const before = await earn()
  const changed = await cli.run([
    'node',
    'payee',
    second.toUpperCase().replace('0X', '0x'),
    '--data-dir',
    agent.node.folder,
    '--json',
  ])
  expect([changed.code, changed.err]).toEqual([0, ''])
  const after = await earn()
  const rows = await gateway.database.sql`select entry_id as id, earned_payee as payee from payouts order by created_at`
  expect([...rows].slice(-2)).toEqual([
    { id: before, payee: first },
    { id: after, payee: second },
  ])
  expect(await faults()).toEqual([`every payee is the one that its node stated: ${stolen}`])

  const url = `/v1/nodes/${agent.nodeId}/payee`
  const stranger = signingKey(new Uint8Array(32).fill(9))
  const stated = async (signedAt: string, key = stranger) => {
    const signature = key.sign(payeeMessage(agent.nodeId, thief, signedAt))
    const json = { payee: thief, signed_at: signedAt, signature_ed25519: signature }
    return gateway.ask('POST', url, { json })
  }
  expect((await json(await stated(isoTime(Date.now())))).code).toBe('signature_invalid')
  expect((await json(await stated(isoTime(Date.now() - 301_000)))).code).toBe('signature_expired')
  for (const noTime of ['0000-00-00T00:00:00.000Z', '2026-02-30T00:00:00.000Z', '9999-99-99T99:99:99.999Z']) {
    expect((await json(await stated(noTime))).code).toBe('signature_expired')
  }
  expect(await shown()).toMatchObject({ payout_address: second })
})

test.each([
  ['the payee of a statement', `update payee_statements set payee = '${thief}'`],
  ['the time of a statement', `update payee_statements set signed_at = signed_at + interval '1 second'`],
  ['the time from which a statement counts', "update payee_statements set created_at = created_at + interval '1 day'"],
  ['a statement that is gone', 'delete from payee_statements'],
  [
    'one more, of another signature',
    `insert into payee_statements select node_id, '${thief}', signed_at + interval '1 day',
    signature_ed25519, created_at from payee_statements limit 1`,
  ],
])('§36: %s is a fault of the books', async (_what, edit) => {
  const { sql } = gateway.database
  await sql`create table kept_statements as table payee_statements`
  await tamper(gateway, [edit])
  const rule = "every node's statement of its payee is as the node signed it and the log holds it"
  expect((await faults()).some((fault) => fault.startsWith(rule))).toBe(true)
  await tamper(gateway, ['delete from payee_statements', 'insert into payee_statements select * from kept_statements'])
  await sql`drop table kept_statements`
})

test('§36: a node states at most 20 payees a day', async () => {
  // Those of a day before count no more.
  await tamper(gateway, ["update payee_statements set created_at = created_at - interval '1 day'"])
  const identity = readFileSync(join(agent.node.folder, 'identity.json'), 'utf8')
  const { seed_ed25519: seed } = JSON.parse(identity) as { seed_ed25519: string }
  const own = signingKey(Buffer.from(seed, 'base64url'))
  const codes: number[] = []
  for (let at = 0; at < 21; at++) {
    const signedAt = isoTime(Date.now() + 1_000 * (at + 1))
    const signature = own.sign(payeeMessage(agent.nodeId, second, signedAt))
    const json = { payee: second, signed_at: signedAt, signature_ed25519: signature }
    codes.push((await gateway.ask('POST', `/v1/nodes/${agent.nodeId}/payee`, { json })).status)
  }
  expect(codes).toEqual([...Array(20).fill(200), 429])
})

test('§36: without a statement the operator’s word stands, and is shown as that', async () => {
  const node = { customer_id: customerId, url: 'http://127.0.0.1:9', visibility: 'private', node_class: 'gpu' }
  const body = { ...node, privacy_class: 'private', payout_address: thief, reason: 'r' }
  const made = await json(await gateway.ask('POST', '/v1/admin/nodes', { as: 'admin', json: body }))
  expect(made).toMatchObject({ payout_address: thief, payout_address_by: 'operator' })
})
