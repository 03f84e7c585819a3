import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createReceiptMacs } from '../../../src/actors/log/receipt-macs.ts'
import { headers, witnessPath } from '../../../src/brand.ts'
import { checkpointText, logProofText } from '../../../src/protocol/log/checkpoint.ts'
import { logLeaf } from '../../../src/protocol/log/log-entry.ts'
import { nodeHash } from '../../../src/protocol/log/merkle-log.ts'
import { noteKeyText, noteText, parseNote, parseSignatureLine } from '../../../src/protocol/log/note.ts'
import { logSigner } from '../../../src/protocol/log/note-signing.ts'
import { witnessRequestText } from '../../../src/protocol/log/witnessing.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { receiptMessage } from '../../../src/protocol/signing/signatures.ts'
import { CallSignal } from '../../../src/transport/call-signal.ts'
import { commandLine } from '../../cli/command-line.ts'
import { dialledAgent, newAccount } from '../../support/gateways/accounts.ts'
import { json, startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { receiptOf } from '../../support/money/forging.ts'
import { insertReceipts } from '../../support/money/insert-receipts.ts'
import { fixture } from '../../support/run/fixture.ts'

const logKey = signingKey(Buffer.from('5a'.repeat(32), 'hex'))
const macs = createReceiptMacs(['5a'.repeat(32)])

const gateway = await fixture(
  startTestGateway({
    ...stillLog,
    SVC_LOG_COSIGN_MS: '600000',
    SVC_LOG_KEY: '5a'.repeat(32),
  }),
)
const customer = await newAccount(gateway)
const agents = await fixture([await dialledAgent(gateway, customer.id), await dialledAgent(gateway, customer.id)])
const cli = await fixture(
  commandLine({
    SVC_BASE_URL: gateway.url,
    SVC_CUSTOMER_ID: customer.id,
    SVC_CUSTOMER_TOKEN: customer.token,
  }),
)

async function received(): Promise<{ readonly hash: string; readonly text: string }> {
  const receipt = receiptOf(customer.id)
  await insertReceipts(gateway.database, [receipt], macs)
  return receipt
}

/** Has an agent sign what it is shown, as the gateway asks it: with the router's signature, over its tunnel. */
async function cosign(nodeId: string, note: string): Promise<string> {
  const transport = gateway.gateway.router.transport(nodeId as never)
  const signer = logSigner(parseNote(note)?.text.split('\n')[0] ?? '', logKey)
  const response = await transport?.fetch(witnessPath, {
    method: 'POST',
    headers: { 'content-type': 'text/plain', [headers.logKeys]: noteKeyText(signer.key) },
    body: witnessRequestText({ oldSize: 0, proof: [], note }),
    signal: new CallSignal(),
  })
  expect(response?.status).toBe(200)
  return (await response?.text(10_000)) ?? ''
}

const verify = (content: unknown, ...more: string[]) => {
  const at = join(cli.home, `${crypto.randomUUID()}.json`)
  writeFileSync(at, typeof content === 'string' ? content : JSON.stringify(content))
  return cli.run(['verify', 'receipt', at, ...more])
}

test('§31: a gateway that shows two logs is exposed by the first cosigning exchange, and by the customer’s next verify', async () => {
  const { origin, keys } = (await json(await gateway.ask('GET', '/v1/public/log/keys'))) as unknown as {
    origin: string
    keys: string[]
  }
  const [one, two] = agents
  if (one === undefined || two === undefined) throw new Error('no agents')
  // What the forger shows to one customer and one agent: a log of its own, under the true name and by the true key.
  const receipt = await received()
  const other = logLeaf({ kind: 'receipt', hash: `0x${'12'.repeat(32)}` })
  const signer = logSigner(origin, logKey)
  const text = checkpointText({
    origin,
    size: 2,
    root: nodeHash(logLeaf({ kind: 'receipt', hash: receipt.hash }), other),
  })
  const signatures = [signer.sign(text)]
  const line = parseSignatureLine((await cosign(two.nodeId, noteText({ text, signatures }))).trim())
  if (line === null) throw new Error('the agent did not sign')
  const note = noteText({ text, signatures: [...signatures, line] })
  const forged = {
    object: 'svc.receipt',
    receipt: JSON.parse(receipt.text),
    receipt_hash: receipt.hash,
    log: {
      signature_ed25519: logKey.sign(receiptMessage(receipt.hash)),
      log_proof: logProofText({ index: 0, proof: [other], note }),
    },
  }
  // Nobody can tell from it alone: it is signed, and witnessed.
  const first = await verify(forged, '--log-key', keys[0] ?? '')
  expect([first.code, first.out]).toEqual([0, expect.stringContaining('valid')])

  // The true log, for everybody else. The first exchange with both agents exposes the forger.
  await received()
  await gateway.gateway.sequencer.catchUp()
  expect(gateway.gateway.sequencer.fork()).toBeNull()
  expect(await gateway.gateway.cosigning.round()).toBe(1)
  const exposed = gateway.gateway.sequencer.fork()
  expect(exposed?.startsWith(text)).toBe(true)
  const shown = parseNote(await (await gateway.ask('GET', '/v1/public/log/checkpoint')).text())
  expect(shown?.signatures.map(({ name }) => name)).toHaveLength(2)

  // The customer's next verification, of what the gateway itself hands out with every proof that it can make.
  const next = await cli.run(['receipts', 'export', receipt.hash])
  expect(next.code).toBe(0)
  const second = await verify(next.out)
  expect([second.code, second.out]).toEqual([1, expect.stringContaining('SPLIT VIEW')])
})
