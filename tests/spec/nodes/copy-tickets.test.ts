import { expect, test } from 'bun:test'
import { headers } from '../../../src/brand.ts'
import { newId } from '../../../src/ids.ts'
import type { SigningKey } from '../../../src/protocol/signing/ed25519.ts'
import { copyMessage, newNonce } from '../../../src/protocol/signing/signatures.ts'
import {
  type FileBytesAsked,
  nodeFileBytesPath,
  nodeFilesPath,
  nodePullsPath,
} from '../../../src/protocol/wire/nodes/pulls.ts'
import { isoTime } from '../../../src/time.ts'
import { pausedAnswer } from '../../support/clients/paused-client.ts'
import { several, startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, untilState } from '../../support/nodes/agents.ts'
import { agentRuntime, startScriptedAgent } from '../../support/nodes/scripted-agent.ts'
import { fixture } from '../../support/run/fixture.ts'

const fileBytes = 512 * 1024 * 1024
const place = '/v1/node-agent/copies/files'

/** Of the order that the target got. */
let ticket = ''
/** What the source has handed out of its file, bytes. */
let handedOut = 0
let left = Promise.withResolvers<void>()

function file({ from, to }: FileBytesAsked): Response {
  const last = to ?? fileBytes - 1
  let at = from
  const piece = Buffer.alloc(64 * 1024, 7)
  const body = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        const bytes = piece.subarray(0, Math.min(piece.length, last + 1 - at))
        at += bytes.length
        handedOut += bytes.length
        controller.enqueue(bytes)
        if (at > last) controller.close()
      },
      cancel: () => left.resolve(),
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { status: 206, headers: { 'content-range': `bytes ${from}-${last}/${fileBytes}` } })
}

const gateway = await fixture(startTestGateway({ env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8' } }))
const { customerId } = await gateway.customer()
const agent = async (model: string) => {
  const { enrollment_token: token } = await enrollmentToken(gateway, customerId, { endpointUrlAllowed: true })
  return startScriptedAgent(gateway.url, token, [agentRuntime(newId('rt'), [model])])
}
const source = await fixture(agent('tiny'))
const target = await fixture(agent('other'))
await Promise.all([source, target].map(({ nodeId }) => untilState(gateway, nodeId, 'ready')))
source.respond(({ path, body }) => {
  if (path === nodeFilesPath)
    return Response.json({ files: [{ name: 'tiny.gguf', bytes: fileBytes, sha256: 'a'.repeat(64) }] })
  return path === nodeFileBytesPath ? file(JSON.parse(body) as FileBytesAsked) : null
})
target.respond(({ path, body }) => {
  if (path !== nodePullsPath) return null
  const { ticket: given, ref, model } = JSON.parse(body) as { ticket: string; ref: string; model: string }
  ticket = given
  const pull = { pull_id: newId('pull'), ref, model, state: 'waiting', failure: null, bytes_done: 0 }
  const unknown = { bytes_total: null, memory_mb: null, context_length: null, ended_at: null }
  return Response.json({ ...pull, ...unknown, begun_at: isoTime(Date.now()) }, { status: 202 })
})
await gateway.admin('POST', `/v1/admin/nodes/${source.nodeId}/models/copy`, { model: 'tiny', to: target.nodeId })

interface Shown {
  readonly nodeId?: string
  readonly identity?: SigningKey
  readonly ticket?: string
  readonly nonce?: string
  readonly timestamp?: number
  readonly signed?: string
}
function shown(path: string, given: Shown = {}): Record<string, string> {
  const { nodeId = target.nodeId, identity = target.identity, nonce = newNonce() } = given
  const { timestamp = Math.floor(Date.now() / 1_000), ticket: sent = ticket, signed = path } = given
  return {
    [headers.nodeId]: nodeId,
    [headers.nodeTimestamp]: String(timestamp),
    [headers.nodeNonce]: nonce,
    [headers.nodeSignature]: identity.sign(copyMessage(nodeId, timestamp, nonce, signed, sent)),
    [headers.copyTicket]: sent,
  }
}
const get = (path: string, sent: Record<string, string>) =>
  fetch(gateway.url + path, { headers: sent, keepalive: false })
const codeOf = async (answer: Response) => [answer.status, ((await answer.json()) as { code: string }).code]

test('§39: only the node for which a copy was ordered gets the files, each request once', async () => {
  expect((await get(place, shown(place))).status).toBe(200)
  const nonce = newNonce()
  const once = shown(place, { nonce })
  expect((await get(place, once)).status).toBe(200)
  expect(await codeOf(await get(place, once))).toEqual([401, 'nonce_reused'])
  const flipped = `${ticket.slice(0, -2)}${ticket.endsWith('AA') ? 'BB' : 'AA'}`
  const wrong: readonly (readonly [Record<string, string>, string])[] = [
    [shown(place, { nodeId: source.nodeId, identity: source.identity }), 'signature_invalid'],
    [shown(place, { identity: source.identity }), 'signature_invalid'],
    [shown(place, { ticket: flipped }), 'signature_invalid'],
    [shown(place, { ticket: 'abc' }), 'signature_invalid'],
    [shown(place, { signed: `${place}/0` }), 'signature_invalid'],
    [shown(place, { timestamp: 1_000 }), 'signature_expired'],
    [{}, 'missing_credentials'],
  ]
  for (const [sent, code] of wrong) expect(await codeOf(await get(place, sent))).toEqual([401, code])
})

test('§39: a range is one with a beginning that the file has', async () => {
  const path = `${place}/0`
  const part = await get(path, { ...shown(path), range: 'bytes=100-199' })
  expect([part.status, part.headers.get('content-range')]).toEqual([206, `bytes 100-199/${fileBytes}`])
  expect((await part.bytes()).length).toBe(100)
  for (const range of ['bytes=-5', 'bytes=0-1,5-6', 'lines=0-1', 'bytes=x-'])
    expect((await get(path, { ...shown(path), range })).status).toBe(400)
  const missing = `${place}/a`
  expect((await get(missing, shown(missing))).status).toBe(404)
})

const begun = () => pausedAnswer(`${gateway.url}${place}/0`, shown(`${place}/0`))

test('§39: the gateway keeps nothing of a file while the node that gets it does not read, and lets go when that leaves', async () => {
  handedOut = 0
  left = Promise.withResolvers()
  const before = process.memoryUsage.rss()
  const reader = await begun()
  // The sockets of the three programs fill, and then nothing more is read.
  let seen = -1
  await waitFor('the source to be held back', async () => {
    const still = handedOut === seen
    seen = handedOut
    await source.polled()
    await source.polled()
    return still && handedOut === seen
  })
  expect(handedOut).toBeGreaterThan(0)
  expect(handedOut).toBeLessThan(64 * 1024 * 1024)
  expect(process.memoryUsage.rss() - before).toBeLessThan(256 * 1024 * 1024)
  reader.leave()
  await left.promise
})

// Each process counts its own.
test.skipIf(several)('§39: no more than 16 files pass at once, and each that ends makes room', async () => {
  const open = await Promise.all(Array.from({ length: 16 }, () => begun()))
  expect(open.every(({ status }) => status === 206)).toBe(true)
  const path = `${place}/0`
  expect(await codeOf(await get(path, shown(path)))).toEqual([429, 'capacity_exhausted'])
  open[0]?.leave()
  await waitFor('room', async () => {
    const answer = await get(path, { ...shown(path), range: 'bytes=0-9' })
    return answer.status === 206 && (await answer.bytes()).length === 10
  })
  for (const each of open) each.leave()
})

test('§39: a node that an operator has revoked gives nothing any more', async () => {
  await gateway.admin('POST', `/v1/admin/nodes/${source.nodeId}/revoke`)
  expect(await codeOf(await get(place, shown(place)))).toEqual([409, 'invalid_state'])
})
