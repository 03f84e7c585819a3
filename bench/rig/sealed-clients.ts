import { framed } from '../../src/protocol/sealed/frames.ts'
import { sealBody } from '../../src/protocol/sealed/hpke.ts'
import { readKeyConfig } from '../../src/protocol/sealed/key-config.ts'
import type { ClientPlan, ClientReport } from '../sealed.ts'

/**
 * Streams through a gateway, sealed or not. Everything is sealed before the first request, and nothing is opened: what sealing costs a client
 * is no part of what is measured. Prints `ready`, begins with a line of standard input, and prints its report.
 */
const plan = JSON.parse(process.env.PLAN ?? '') as ClientPlan

interface Prepared {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | ArrayBuffer
}

async function prepared(): Promise<Prepared> {
  const svc = plan.way === 'padded' ? { svc: { pad: true } } : {}
  const content = `[[bench n=${plan.chunks} us=${plan.chunkUs}]] hello`
  const text = JSON.stringify({ model: plan.model, stream: true, messages: [{ role: 'user', content }], ...svc })
  const headers = { authorization: `Bearer ${plan.key}`, 'content-type': 'application/json' }
  const publicKey = readKeyConfig(new Uint8Array(Buffer.from(plan.keyConfig, 'base64')))
  if (plan.way === 'unsealed' || publicKey === null) return { headers, body: text }
  const { enc, frames } = await sealBody(publicKey, [new TextEncoder().encode(text)])
  const bytes = new Uint8Array(Buffer.concat(frames.map(framed)))
  const sealed = { 'ehbp-encapsulated-key': Buffer.from(enc).toString('hex'), 'x-svc-model': plan.model }
  return { headers: { ...headers, ...sealed }, body: bytes.buffer }
}

async function stream({ headers, body }: Prepared): Promise<{ firstMs: number; bytes: number; ok: boolean }> {
  const beganMs = performance.now()
  const response = await fetch(plan.url, { method: 'POST', headers, body })
  let firstMs = Number.NaN
  let bytes = 0
  let last = ''
  for await (const piece of response.body ?? []) {
    if (bytes === 0) firstMs = performance.now() - beganMs
    bytes += piece.length
    if (plan.way === 'unsealed') last = new TextDecoder().decode(piece)
  }
  // A sealed stream that was cut ends as a broken connection.
  const whole = plan.way !== 'unsealed' || last.includes('[DONE]')
  return { firstMs, bytes, ok: response.status === 200 && whole }
}

const all = await Promise.all(Array.from({ length: plan.streams * plan.turns }, prepared))
process.stdin.once('data', async () => {
  const firstMs: number[] = []
  const report = { ok: 0, failed: 0, bytes: 0 }
  for (let from = 0; from < all.length; from += plan.streams) {
    const now = all.slice(from, from + plan.streams)
    for (const ended of await Promise.allSettled(now.map(stream))) {
      if (ended.status === 'fulfilled' && ended.value.ok) {
        report.ok++
        report.bytes += ended.value.bytes
        firstMs.push(ended.value.firstMs)
      } else report.failed++
    }
  }
  console.log(`report ${JSON.stringify({ ...report, firstMs } satisfies ClientReport)}`)
  process.exit(0)
})
console.log('ready')
