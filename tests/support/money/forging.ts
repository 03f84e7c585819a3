import { createSequencer, type SequencerOptions } from '../../../src/actors/log/sequencer.ts'
import type { connect } from '../../../src/db/client.ts'
import { createLog } from '../../../src/log.ts'
import { type Receipt, receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import type { TestGateway } from '../gateways/http-gateway.ts'
import { insertGroup, insertReceipts } from './insert-receipts.ts'
import { receiptFacts } from './receipt-facts.ts'
import { testMacs } from './receipt-macs.ts'

/** With which test gateways sign their log. */
export const testKey = signingKey(Buffer.from('77'.repeat(32), 'hex'))
type Sql = Pick<ReturnType<typeof connect>, 'unsafe'>

export const factsOf = (more: Partial<Receipt> = {}): Receipt =>
  receiptFacts({
    modelId: 'a-model-that-never-existed',
    startedAt: '2020-01-01T00:00:00.000Z',
    completedAt: '2020-01-01T00:00:01.000Z',
    promptTokens: 1,
    completionTokens: 2,
    ...more,
  })

/** A free receipt, as it is inserted. */
export function receiptOf(customerId = 'cus_a', more: Partial<Receipt> = {}) {
  const facts = factsOf(more)
  const text = receiptText(facts)
  return { hash: textHash(text), text, customerId, facts }
}

/** What somebody with the database writes. `mac`: null, or one that was copied from elsewhere. */
export async function forge(sql: Sql, facts: Receipt, mac: string | null = null): Promise<string> {
  const hash = textHash(receiptText(facts))
  await sql.unsafe(`insert into receipt_rows (receipt_hash, issuer, request_id, kind, node_id, node_class, runtime_id, runtime_kind,
      model_id, prompt_tokens, completion_tokens, started_at, completed_at, customer_id, mac)
    values ('${hash}', '${facts.issuer}', '${facts.requestId}', 'hosted_chat', '${facts.nodeId}', 'gpu', 'rt_a', 'vllm',
      '${facts.modelId}', 1, 2, '${facts.startedAt}', '${facts.completedAt}', 'cus_a',
      ${mac === null ? 'null' : `'${mac}'`})`)
  return hash
}

export async function issued(count: number, on: TestGateway, macs = testMacs): Promise<readonly string[]> {
  const rows = Array.from({ length: count }, () => receiptOf())
  await insertReceipts(on.database, rows, macs)
  return rows.map(({ hash }) => hash)
}
export async function issuedInGroup(count: number, on: TestGateway): Promise<readonly string[]> {
  const rows = Array.from({ length: count }, () => receiptOf())
  await insertGroup(on.database, rows)
  return rows.map(({ hash }) => hash)
}
/** Another process that writes this gateway's log. */
export function sequencerOf(own: TestGateway, more: Partial<SequencerOptions> = {}) {
  const texts: string[] = []
  const log = createLog('warn', (text) => texts.push(text))
  const sequencer = createSequencer({
    db: own.database.db,
    log,
    keys: [testKey],
    macs: testMacs,
    intervalMs: 600_000,
    memory: null,
    ...more,
  })
  const told = (name: string) => {
    log.flush()
    return texts.join('').split(`"event":"${name}"`).length - 1
  }
  return {
    start: () => sequencer.start(),
    stop: () => sequencer.stop(),
    catchUp: () => sequencer.catchUp(),
    forged: () => sequencer.forged(),
    told,
  }
}
