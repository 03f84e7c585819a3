import { describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promiseTexts } from '../../../src/actors/promises/promise-batch.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { type LogPromise, readPromise } from '../../../src/protocol/log/promise.ts'
import { signingKey, verifyKey } from '../../../src/protocol/signing/ed25519.ts'
import { commandLine } from '../../cli/command-line.ts'
import { readStream } from '../../support/clients/event-stream.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { startPaidGateway } from '../../support/money/paid-gateway.ts'
import { enrollmentToken, startAgent } from '../../support/nodes/agents.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const logKey = signingKey(Buffer.from('5a'.repeat(32), 'hex'))
const known = verifyKey(logKey.publicKey)
const sinceMs = Date.now()
const messages = [{ role: 'user', content: 'hello there' }]

const paid = await fixture(
  startPaidGateway({
    promptPrice: 10n,
    outputPrice: 100n,
    creditWei: 100_000_000n,
    env: {
      SVC_LOG_KEY: '5a'.repeat(32),
      SVC_LOG_COSIGN_MS: '200',
      SVC_LOG_INTERVAL_MS: '100',
      SVC_PUBLIC_RPM_PER_IP: '100000',
      SVC_RECEIPT_FLUSH_MS: '10',
    },
  }),
)
const { gateway, payer } = paid
const own = await fixture(startFakeNode({ models: ['own'] }))
await gateway.node(own.url, { customerId: payer.customerId })
const token = await enrollmentToken(gateway, payer.customerId)
const agent = await fixture(startAgent({ gatewayUrl: gateway.url, token: token.enrollment_token, runtimes: [] }))
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url }))

/** Makes sure of one promise, and that its receipt is on the disk already. */
async function expectPromise(promise: LogPromise | undefined, hash: unknown): Promise<void> {
  const read = readPromise(promise)
  expect(read?.promised.hash).toBe(String(hash))
  expect(known?.verify(read?.message ?? '', read?.signature ?? '')).toBe(true)
  expect(read?.promised.ms).toBeGreaterThanOrEqual(sinceMs)
}
const isStored = async (hash: unknown) => {
  const rows = await paid.gateway.database.sql`select 1 from receipts where receipt_hash = ${String(hash)}`
  return rows.length === 1
}

const isLogged = async (hash: string) =>
  (await fetch(`${paid.gateway.url}/v1/public/log/proof?receipt_hash=${hash}`)).status === 200

interface Metadata {
  readonly receipt_hash: string
  readonly receipt?: LogPromise
}
const svcOf = async (response: Response) => ((await response.json()) as { svc: Metadata }).svc
const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  postJson(paid.gateway.url + path, paid.payer.key, { model: 'paid', ...body }, { headers })

describe('§36: the promise at the end of a billed answer', () => {
  test('stands in `svc.receipt` of a whole one, whose receipt is durable by then', async () => {
    const svc = await svcOf(await paid.ask())
    await expectPromise(svc.receipt, svc.receipt_hash)
    expect(await isStored(svc.receipt_hash)).toBe(true)
  })

  test.each([[true], [false]])('stands in the last chunk of a stream; include_usage %p', async (usage) => {
    const stream = await readStream(await paid.ask({ stream: true, stream_options: { include_usage: usage } }))
    const svc = stream.last.svc as unknown as Metadata
    await expectPromise(svc.receipt, svc.receipt_hash)
    expect(await isStored(svc.receipt_hash)).toBe(true)
  })

  test.each([
    ['/v1/messages', { max_tokens: 20, messages }],
    ['/v1/responses', { max_output_tokens: 20, input: 'hello' }],
  ])('stands in the answers of %s, whole and streamed', async (path, body) => {
    const whole = await svcOf(await post(path, { ...body, stream: false }))
    await expectPromise(whole.receipt, whole.receipt_hash)
    const text = await (await post(path, { ...body, stream: true })).text()
    const told = text.split('\n').flatMap((line) => /^(?:data: )?(\{.*"svc":.*)$/.exec(line)?.[1] ?? [])
    expect(told).toHaveLength(1)
    const event = JSON.parse(told[0] ?? '') as { svc?: Metadata; response?: { svc: Metadata } }
    const svc = event.svc ?? event.response?.svc
    await expectPromise(svc?.receipt, svc?.receipt_hash)
  })

  test('shares a signature with others where many end at once, and is in the log soon', async () => {
    const all = await Promise.all(Array.from({ length: 64 }, async () => svcOf(await paid.ask())))
    for (const svc of all) await expectPromise(svc.receipt, svc.receipt_hash)
    expect(all.some(({ receipt }) => receipt?.batch !== undefined)).toBe(true)
    await Promise.all(all.map(({ receipt_hash: hash }) => waitUntil('it is in the log', () => isLogged(hash))))
  })
})

test('§36: a free answer bears a promise where its client sent a nonce, whole or streamed, and none elsewhere', async () => {
  const nonce = { 'x-svc-nonce': 'nonce-of-client-1' }
  const ask = (more: object, headers = {}) =>
    post('/v1/api/chat/completions', { model: 'own', messages, ...more }, headers)
  const whole = await svcOf(await ask({}, nonce))
  await expectPromise(whole.receipt, whole.receipt_hash)
  const streamed = (await readStream(await ask({ stream: true }, nonce))).last.svc as unknown as Metadata
  await expectPromise(streamed.receipt, streamed.receipt_hash)
  const text = await (await ask({})).text()
  expect([text.includes('"receipt_hash"'), text.includes('promised_at')]).toEqual([true, false])
  const other = await readStream(await ask({ stream: true }))
  expect((other.last.svc as unknown as Metadata).receipt).toBeUndefined()
})

test('§36: an answer that broke off promises nothing', async () => {
  paid.node.setFaults({ kind: 'dropMidStream', afterChunks: 2 })
  const text = await (await paid.ask({ stream: true })).text()
  paid.node.clearFaults()
  expect([text.includes('"error"'), text.includes('promised_at')]).toEqual([true, false])
})

describe('§36: what became of a promise', () => {
  const logKeyText = async () => {
    const { keys } = (await (await fetch(`${paid.gateway.url}/v1/public/log/keys`)).json()) as { keys: string[] }
    return keys[0] ?? ''
  }
  const ask = async (file: object, ...more: string[]) => {
    const name = join(cli.home, 'answer.json')
    writeFileSync(name, JSON.stringify(file))
    return cli.run(['receipts', 'promise', name, ...more])
  }
  const verified = async (file: string, ...more: string[]) => {
    const name = join(cli.home, 'outcome.json')
    writeFileSync(name, file)
    const ended = await cli.run(['verify', 'promise', name, '--log-key', await logKeyText(), '--json', ...more])
    const { verdicts } = JSON.parse(ended.out) as {
      verdicts: { kind: string; checks: { name: string; ok: boolean }[] }[]
    }
    const failed = verdicts.flatMap(({ checks }) => checks.flatMap(({ name, ok }) => (ok === false ? [name] : [])))
    return { code: ended.code, kind: verdicts[0]?.kind, failed }
  }
  /** As the log's key alone can make it, of a receipt that was dropped before the log. */
  const dropped = async (agoMs: number) => {
    const { origin } = (await (await fetch(`${paid.gateway.url}/v1/public/log/keys`)).json()) as { origin: string }
    const stamp = { log: origin, ms: Date.now() - agoMs }
    const [text = ''] = promiseTexts(stamp, [`0x${'d0'.repeat(32)}`], (message) => logKey.sign(message))
    return { svc: { receipt: JSON.parse(text) as LogPromise } }
  }

  test('one command asks the log for it, and another verifies the answer: it was kept', async () => {
    const answer = (await (await paid.ask()).json()) as { svc: Metadata }
    await waitUntil('the receipt is in the log', () => isLogged(answer.svc.receipt_hash))
    const { code, out } = await ask(answer)
    expect(code).toBe(0)
    expect(await verified(out)).toEqual({ code: 0, kind: 'promise', failed: [] })
    expect(await verified(JSON.stringify(answer))).toEqual({ code: 0, kind: 'promise', failed: [] })
  })

  test('it was broken: evidence with all entries and the signature of a witness', async () => {
    const witness = agent.node.witnessKey
    await waitUntil('a cosigned checkpoint', async () => {
      const note = await (await fetch(`${paid.gateway.url}/v1/public/log/checkpoint`)).text()
      return note.includes('svc-witness/')
    })
    const { code, out, err } = await ask(await dropped(180_000))
    expect([code, err]).toEqual([1, 'The log broke 1 of 1 promises. `verify promise` checks the evidence.\n'])
    expect(await verified(out, '--witness', witness)).toEqual({ code: 0, kind: 'omission', failed: [] })
    expect(await verified(out)).toEqual({ code: 1, kind: 'omission', failed: ['time'] })
  })

  test('it was broken: evidence without a witness, by a later promise of the same log', async () => {
    const later = (await (await paid.ask()).json()) as { svc: Metadata }
    await waitUntil('the receipt is in the log', () => isLogged(later.svc.receipt_hash))
    writeFileSync(join(cli.home, 'later.json'), JSON.stringify(later))
    await waitUntil('the checkpoint that is shown holds it', async () => {
      const { out } = await ask(await dropped(180_000), '--later', `@${join(cli.home, 'later.json')}`)
      return (await verified(out)).failed.length === 0
    })
  })

  test('it is too early to say', async () => {
    const { code, err } = await ask(await dropped(90_000))
    expect(code).toBe(1)
    expect(err).toContain('The log does not hold the receipt yet. It has until ')
    expect(err).toContain('Ask again after ')
    const none = await ask({ svc: {} })
    expect([none.code, none.err.includes('no promise of a log')]).toEqual([4, true])
  })
})
