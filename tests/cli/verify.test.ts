import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkpointText, logProofText, parseCheckpoint, parseLogProof } from '../../src/protocol/log/checkpoint.ts'
import { logLeaf } from '../../src/protocol/log/log-entry.ts'
import { nodeHash } from '../../src/protocol/log/merkle-log.ts'
import { noteKeyText, noteText, parseNote } from '../../src/protocol/log/note.ts'
import { logSigner } from '../../src/protocol/log/note-signing.ts'
import { signingKey } from '../../src/protocol/signing/ed25519.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { payFor } from '../support/money/money.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'
import { commandLine } from './command-line.ts'

const gateway = await fixture(startTestGateway({ env: { SVC_LOG_INTERVAL_MS: '50' } }))
const { customerId: id, customerToken } = await gateway.customer()
const customerId = id
const cli = await fixture(
  commandLine({
    SVC_BASE_URL: gateway.url,
    SVC_ADMIN_TOKEN: gateway.tokens.admin,
    SVC_CUSTOMER_ID: id,
    SVC_CUSTOMER_TOKEN: customerToken,
  }),
)
await cli.json('credits', 'add', customerId, '100000')
const { keys } = (await (await fetch(`${gateway.url}/v1/public/log/keys`)).json()) as { keys: string[] }
const logKey = keys[0] ?? ''

interface Exported {
  readonly receipt: Record<string, unknown>
  readonly receipt_hash: string
  readonly log: { readonly log_proof: string; readonly signature_ed25519: string | null }
}

/** One paid chat, as its customer exports it once it is in the log. */
async function exported(): Promise<Exported> {
  const hash = await payFor(gateway.database, { customerId, nodeId: 'node_a', amountWei: 10n })
  const logged = async () => (await fetch(`${gateway.url}/v1/public/log/proof?receipt_hash=${hash}`)).status === 200
  await waitUntil('the receipt in the log', logged)
  return JSON.parse((await cli.run(['receipts', 'export', hash])).out) as Exported
}

function file(content: unknown): string {
  const at = join(cli.home, `${crypto.randomUUID()}.json`)
  writeFileSync(at, typeof content === 'string' ? content : JSON.stringify(content))
  return at
}
const verified = async (content: unknown, ...args: string[]) => {
  const { code, out } = await cli.run(['verify', 'receipt', file(content), '--json', ...args])
  const { verdicts } = JSON.parse(out) as {
    verdicts: { checks: { name: string; ok: boolean | null; detail: string }[] }[]
  }
  const failed = verdicts.flatMap(({ checks }) => checks).filter(({ ok }) => ok === false)
  return { code, failed: failed.map(({ name }) => name), detail: failed.map(({ detail }) => detail).join('; ') }
}

test('§31: an exported receipt proves itself offline to whoever knows the key of the log, and later ones lead on', async () => {
  const one = await exported()
  expect(await verified(one)).toMatchObject({ code: 1, failed: ['signature', 'checkpoint'] })
  expect(await verified(one, '--log-key', logKey)).toEqual({ code: 0, failed: [], detail: '' })
  // The key is remembered, and so is the checkpoint.
  const two = await exported()
  expect(await verified(two)).toEqual({ code: 0, failed: [], detail: '' })
  expect((await verified({ ...two, consistency: [] })).failed).toEqual([])
  const three = await exported()
  expect((await verified({ ...three, consistency: [] })).failed).toEqual(['consistency'])
  expect((await verified(three)).code).toBe(0)
})

test('§31: what is changed, unsigned, not in the log or not witnessed is not valid', async () => {
  const good = await exported()
  expect((await verified(good)).code).toBe(0)
  expect((await verified({ ...good, receipt: { ...good.receipt, completion_tokens: 1 } })).failed).toContain('hash')
  expect((await verified({ ...good, log: { ...good.log, signature_ed25519: null } })).failed).toEqual(['signature'])
  expect((await verified({ ...good, log: null })).failed).toEqual(['signature', 'log'])
  expect((await verified(good, '--witnesses', '1')).failed).toEqual(['witnesses'])
  const moved = good.log.log_proof.replace(/index (\d+)/, (_, at) => `index ${Number(at) - 1}`)
  expect((await verified({ ...good, log: { ...good.log, log_proof: moved } })).failed).toContain('log')
  // An invented one, signed by a key of its own.
  const own = signingKey(new Uint8Array(32).fill(9))
  const { origin = '' } = checkpointIn(good) ?? {}
  const forger = logSigner(origin, own)
  const invented = { ...good, log: { ...good.log, log_proof: forged(good.receipt_hash, origin, 4, forger) } }
  expect((await verified(invented)).failed).toContain('checkpoint')
  expect((await verified({ object: 'svc.receipt', receipt: {} })).code).toBe(1)
})

const checkpointIn = ({ log }: Exported) =>
  parseCheckpoint(parseNote(parseLogProof(log.log_proof)?.note ?? '')?.text ?? '')

/** A log of two entries, or one that says so: the receipt and something else. */
function forged(hash: string, origin: string, size: number, signer: ReturnType<typeof logSigner>): string {
  const leaf = logLeaf({ kind: 'receipt', hash })
  const other = logLeaf({ kind: 'receipt', hash: `0x${'12'.repeat(32)}` })
  const pair = nodeHash(leaf, other)
  const text = checkpointText({ origin, size, root: size === 2 ? pair : nodeHash(pair, pair) })
  const note = noteText({ text, signatures: [signer.sign(text)] })
  return logProofText({ index: 0, proof: size === 2 ? [other] : [other, pair], note })
}

test('§31: a gateway that shows this customer another log than before is exposed, though its own key signed it', async () => {
  const good = await exported()
  expect((await verified(good)).code).toBe(0)
  const { origin = '', size = 0 } = checkpointIn(good) ?? {}
  const gatewayKey = logSigner(origin, signingKey(Buffer.from('77'.repeat(32), 'hex')))
  const split = { ...good, log: { ...good.log, log_proof: forged(good.receipt_hash, origin, 2, gatewayKey) } }
  const consistency = [{ from: 2, to: size, proof: [Buffer.alloc(32, 1).toString('base64')] }]
  const seen = await verified({ ...split, consistency })
  expect(seen).toMatchObject({ code: 1, failed: ['consistency'] })
  expect(seen.detail).toContain('SPLIT VIEW')
})

test('§31: a checkpoint as the log shows it', async () => {
  const note = await (await fetch(`${gateway.url}/v1/public/log/checkpoint`)).text()
  expect((await cli.run(['verify', 'checkpoint', file(note), '--log-key', logKey])).out).toContain('Result')
})

test('§36: a policy says which witnesses must have signed, and nothing beside it widens it', async () => {
  const good = await exported()
  const [strange] = [21, 22, 23].map((byte) =>
    logSigner('witness.example/w', signingKey(new Uint8Array(32).fill(byte))),
  )
  if (strange === undefined) throw new Error('there is no witness')
  const stranger = noteKeyText(strange.cosigningKey)
  const policy = join(cli.home, 'policy')
  writeFileSync(policy, `log ${logKey}\nquorum none\n`)
  expect(await verified(good, '--policy', policy)).toEqual({ code: 0, failed: [], detail: '' })
  writeFileSync(policy, `log ${logKey}\nwitness w ${stranger}\nquorum w\n`)
  expect(await verified(good, '--policy', policy)).toMatchObject({ code: 1, failed: ['witnesses'] })
  writeFileSync(policy, `log ${noteKeyText(strange.key)}\nquorum none\n`)
  // The key of this log is remembered here, and counts for nothing.
  expect((await verified(good, '--policy', policy)).failed).toEqual(['signature', 'checkpoint'])
  const note = file(await (await fetch(`${gateway.url}/v1/public/log/checkpoint`)).text())
  const run = (...more: string[]) => cli.run(['verify', 'checkpoint', note, '--policy', policy, ...more])
  for (const more of [['--witness', stranger], ['--witnesses', '0'], ['--log-key', logKey], ['--without-log']])
    expect((await run(...more)).code).toBe(2)
  writeFileSync(policy, 'quorum none\nhello\n')
  const wrong = await run()
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('line 2')])
  expect((await cli.run(['verify', 'checkpoint', note, '--policy', join(cli.home, 'absent')])).code).toBe(2)
})
