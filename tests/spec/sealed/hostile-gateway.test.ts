import { afterEach, describe, expect, test } from 'bun:test'
import { headers as names } from '../../../src/brand.ts'
import { SealedError, sealedFetch } from '../../../src/client/sealed/sealed-fetch.ts'
import { responseNonceHeader, tagBytes } from '../../../src/protocol/sealed/ehbp.ts'
import { framed, splitFrames } from '../../../src/protocol/sealed/frames.ts'
import { newKeyPair } from '../../../src/protocol/sealed/hpke.ts'
import { keyConfigOf } from '../../../src/protocol/sealed/key-config.ts'
import { padme } from '../../../src/protocol/sealed/padding.ts'
import { sealedKeyId, sealedKeyMessage } from '../../../src/protocol/sealed/sealed-key.ts'
import { toBase64url } from '../../../src/protocol/signing/base64url.ts'
import { type SigningKey, signingKey } from '../../../src/protocol/signing/ed25519.ts'
import type { SealedNode } from '../../../src/protocol/wire/inference/sealed.ts'
import type { SealedKey } from '../../../src/protocol/wire/nodes/sealed-key.ts'
import { type RelayedAnswer, startHostileRelay, type Twist } from '../../support/clients/hostile-relay.ts'
import { startSealedPool } from '../../support/pools/sealed-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const messages = [{ role: 'user' as const, content: 'hello there' }]

const pool = await fixture(startSealedPool({ answer: { chunks: 6 } }))
const relay = await fixture(startHostileRelay(pool.gateway.url))

afterEach(() => {
  relay.twist = {}
})

/** Asks the direct node alone through the relay, and reads the answer to its end. */
async function ask(twist: Twist, stream = true): Promise<{ readonly status: number; readonly text: string }> {
  relay.twist = twist
  const seal = sealedFetch({ gateway: relay.url, trust: [pool.direct.node.fingerprint] })
  const response = await seal(`${relay.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${pool.customer.key}` },
    body: JSON.stringify({ model: 'm-d', messages, stream }),
  })
  return { status: response.status, text: await response.text() }
}

const faultOf = (asking: Promise<unknown>) =>
  asking.then(
    () => 'nothing noticed',
    (error: unknown) => (error instanceof SealedError ? error.fault : String(error)),
  )

const runs = () => pool.servers.reduce((sum, server) => sum + server.requests.length, 0)

/** A key of the gateway's own in the place of the node's. */
async function ownKey(key: SealedKey, signer: SigningKey | null): Promise<SealedKey> {
  const { publicKey } = await newKeyPair()
  const mine = { ...key, key_id: sealedKeyId(publicKey), key_config: toBase64url(keyConfigOf(publicKey)) }
  return signer === null ? mine : { ...mine, signature_ed25519: signer.sign(sealedKeyMessage(mine)) }
}

const withBody = (answer: RelayedAnswer, frames: readonly Uint8Array[]): RelayedAnswer => ({
  ...answer,
  body: new Uint8Array(Buffer.concat(frames.map(framed))),
})
const framesOf = ({ body }: RelayedAnswer) => [...(splitFrames(body) ?? [])]

test('§38: a relay that does nothing is not noticed', async () => {
  const { status, text } = await ask({})
  expect([status, text.includes('[DONE]')]).toEqual([200, true])
})

describe('§38: a gateway that lies about keys and nodes', () => {
  const noticed = async (nodes: NonNullable<Twist['nodes']>) => {
    const before = runs()
    const fault = await faultOf(ask({ nodes }))
    expect(runs()).toBe(before)
    return fault
  }

  test('a key of its own, with the node’s signature or without a fitting one', async () => {
    const [node] = await list()
    const mine = await ownKey(node.keys[0] as SealedKey, null)
    expect(await noticed(() => [{ ...node, keys: [mine] }])).toBe('key_not_signed')
    const other = signingKey(new Uint8Array(32).fill(3))
    const signed = await ownKey(node.keys[0] as SealedKey, other)
    expect(await noticed(() => [{ ...node, keys: [signed] }])).toBe('key_not_signed')
  })

  test('an identity of its own that signs its own key', async () => {
    const [node] = await list()
    const mine = signingKey(new Uint8Array(32).fill(4))
    const keys = [await ownKey(node.keys[0] as SealedKey, mine)]
    const lie = { ...node, identity_public_key_ed25519: mine.publicKey, keys }
    expect(await noticed(() => [lie])).toBe('node_not_pinned')
  })

  test('ids of nodes that would write on the terminal of whoever reads them are none', async () => {
    for (const id of ['node\u001b[2J', 'node one', '../nodes', '']) {
      expect(await noticed((nodes) => nodes.map((node) => ({ ...node, node_id: id })))).toBe('no_node')
    }
  })

  test('a key that has ended, said to be in use', async () => {
    const [node] = await list()
    const keys = node.keys.map((key) => ({ ...key, not_after: '2099-01-01T00:00:00.000Z' }))
    expect(await noticed(() => [{ ...node, keys }])).toBe('key_not_signed')
    const revoked = node.keys.map((key) => ({ ...key, state: 'revoked' as const }))
    expect(await noticed(() => [{ ...node, keys: revoked }])).toBe('no_key_in_use')
  })

  test('another node in the place of this one', async () => {
    const before = runs()
    const elsewhere: Twist = {
      nodes: (nodes) => nodes.map((node) => ({ ...node, node_id: pool.tunnelled.nodeId })),
      request: (request) => {
        request.headers.set(names.sealedModel, 'm-t')
        return request
      },
    }
    expect(await faultOf(ask(elsewhere))).toBe('no_key_in_use')
    expect(runs()).toBe(before)
  })
})

describe('§38: a gateway that changes requests', () => {
  test('a byte of the body', async () => {
    const before = runs()
    const twist: Twist = {
      request: (request) => {
        request.body[30] = (request.body[30] ?? 0) ^ 1
        return request
      },
    }
    expect(await faultOf(ask(twist))).toBe('no_key_in_use')
    expect(runs()).toBe(before)
  })

  test('another model in the clear is refused inside the seal', async () => {
    const before = runs()
    const twist: Twist = {
      request: (request) => {
        request.headers.set(names.sealedModel, 'm-1')
        return request
      },
    }
    const { status, text } = await ask(twist)
    expect([status, JSON.parse(text).error.param]).toEqual([400, 'model'])
    expect(runs()).toBe(before)
  })

  test('the same request once more is not run again', async () => {
    const statuses: number[] = []
    const before = runs()
    await ask({
      answer: async (answer, repeat) => {
        statuses.push(answer.status, (await repeat()).status)
        return answer
      },
    })
    expect(statuses).toEqual([200, 409])
    expect(runs()).toBe(before + 1)
  })
})

describe('§38: a gateway that changes answers', () => {
  const noticed = (answer: NonNullable<Twist['answer']>, stream = true) => faultOf(ask({ answer }, stream))

  test('an answer of its own, in the clear', async () => {
    const own = { choices: [{ message: { role: 'assistant', content: 'mine' } }] }
    const body = new Uint8Array(Buffer.from(JSON.stringify(own)))
    const headers = new Headers({ 'content-type': 'application/json' })
    expect(await noticed(() => ({ status: 200, headers, body }), false)).toBe('answer_not_sealed')
  })

  test('no nonce, another nonce', async () => {
    const change = (nonce: string | null) => (answer: RelayedAnswer) => {
      answer.headers.delete(responseNonceHeader)
      if (nonce !== null) answer.headers.set(responseNonceHeader, nonce)
      return answer
    }
    expect(await noticed(change(null))).toBe('answer_not_sealed')
    expect(await noticed(change('00'.repeat(32)))).toBe('answer_changed')
  })

  test('a byte of a frame; frames in another order, twice, or left out before others', async () => {
    const frames = (change: (frames: Uint8Array[]) => readonly (Uint8Array | undefined)[]) => (answer: RelayedAnswer) =>
      withBody(
        answer,
        change(framesOf(answer)).filter((frame) => frame !== undefined),
      )
    const flip = (answer: RelayedAnswer) => {
      answer.body[10] = (answer.body[10] ?? 0) ^ 1
      return answer
    }
    expect(await noticed(flip)).toBe('answer_changed')
    expect(await noticed(frames(([a, b, ...rest]) => [b, a, ...rest]))).toBe('answer_changed')
    expect(await noticed(frames(([a, ...rest]) => [a, a, ...rest]))).toBe('answer_changed')
    expect(await noticed(frames(([_, ...rest]) => rest))).toBe('answer_changed')
  })

  test('the answer to another request', async () => {
    const kept: RelayedAnswer[] = []
    const keep = (answer: RelayedAnswer) => {
      kept.push(answer)
      return answer
    }
    await ask({ answer: keep })
    expect(await noticed(() => kept[0] as RelayedAnswer)).toBe('answer_changed')
  })

  test('an end that is cut off, between frames and inside of one, of a stream and of a whole answer', async () => {
    const less = (answer: RelayedAnswer) => withBody(answer, framesOf(answer).slice(0, -1))
    const inside = (answer: RelayedAnswer) => ({ ...answer, body: answer.body.slice(0, -3) })
    expect(await noticed(less)).toBe('answer_truncated')
    expect(await noticed(inside)).toBe('answer_truncated')
    expect(await noticed(less, false)).toBe('answer_truncated')
    expect(await noticed(inside, false)).toBe('answer_truncated')
  })

  test('a frame of 2^32-1 bytes, and more than a million empty frames, end the answer at once', async () => {
    const instead = (body: Uint8Array<ArrayBuffer>) => (answer: RelayedAnswer) => ({ ...answer, body })
    expect(await noticed(instead(Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0)))).toBe('answer_changed')
    expect(await noticed(instead(new Uint8Array(4_000_004)))).toBe('answer_changed')
  })
})

async function list(): Promise<[SealedNode, ...SealedNode[]]> {
  const response = await fetch(`${pool.gateway.url}/v1/sealed/nodes?model=m-d`, {
    headers: { authorization: `Bearer ${pool.customer.key}` },
  })
  return ((await response.json()) as { readonly data: [SealedNode, ...SealedNode[]] }).data
}

test('§38: of a refusal in the node’s place no more is read than a refusal has', async () => {
  const type = 'urn:ietf:params:ehbp:error:key-config'
  const refused = (padding: string) => ({
    answer: (): RelayedAnswer => ({
      status: 422,
      headers: new Headers({ 'content-type': 'application/problem+json' }),
      body: new TextEncoder().encode(JSON.stringify({ padding, type })),
    }),
  })
  expect(await faultOf(ask(refused('')))).toBe('no_key_in_use')
  expect((await ask(refused('x'.repeat(100_000)))).status).toBe(422)
})

test('§38: what a relay sees of lengths: texts that differ by little have one size, without padding each its own', async () => {
  const sizes = async (content: string, padding: boolean) => {
    const seen: number[] = []
    relay.twist = {
      request: (request) => {
        seen.push(request.body.length)
        return request
      },
      answer: (answer) => {
        seen.push(...framesOf(answer).map(({ length }) => length - tagBytes))
        return answer
      },
    }
    const seal = sealedFetch({ gateway: relay.url, trust: [pool.direct.node.fingerprint], padding })
    const body = JSON.stringify({ model: 'm-d', messages: [{ role: 'user', content }] })
    const post = { method: 'POST', headers: { authorization: `Bearer ${pool.customer.key}` }, body }
    await (await seal(`${relay.url}/v1/chat/completions`, post)).text()
    return seen
  }
  const [short, longer] = ['x'.repeat(300), 'x'.repeat(303)]
  const [[padded = 0, answered = 0] = [], [same] = []] = [await sizes(short, true), await sizes(longer, true)]
  // The answer tells times, whose digits are not always as many.
  expect([padded, answered]).toEqual([same ?? 0, padme(answered)])
  const [[request = 0] = [], [other = 0] = []] = [await sizes(short, false), await sizes(longer, false)]
  expect(other - request).toBe(3)
})
