import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { createSiblings, ownPartPath } from '../../../src/actors/siblings/siblings.ts'
import { type PeerRequest, peerProof } from '../../../src/actors/tunnels/peer-proof.ts'
import { headers } from '../../../src/brand.ts'
import { sha256Hex } from '../../../src/secrets.ts'
import { secondMs } from '../../../src/time.ts'
import { fixture } from '../../support/run/fixture.ts'

const secret = 'of-this-gateway'
const answer = { index: 1 }

/** One process of a gateway, whose door is a socket of this name. */
const processOf = (index: number, socketName: string, known = secret) =>
  createSiblings({ index, socketFolder: folder, socketName, secret: known, doors: [], leads: index === 0 })

afterAll(async () => {
  await door.stop(true)
  rmSync(folder, { recursive: true, force: true })
})
const folder = mkdtempSync(join(tmpdir(), 'siblings-'))
const asked = await fixture(processOf(1, '1-1.sock'))
const asking = await fixture(processOf(0, '0-1.sock'))
const door = Bun.serve({
  unix: join(folder, '1-1.sock'),
  fetch: (request) => {
    const { pathname, search } = new URL(request.url)
    const admitted = asked.admits(request.headers.get(headers.peerProof), pathname + search)
    return admitted ? Response.json(answer) : new Response(null, { status: 401 })
  },
})

const Answer = Type.Object({ index: Type.Integer() })
const target = `${ownPartPath}metrics?of=metrics`
const question: PeerRequest = {
  replicaId: '1-1.sock',
  method: 'GET',
  path: target,
  head: '',
  bodyHash: sha256Hex(''),
}
/** A proof of the question, as its askers make it, with this in its place. */
const proofOf = (change: Partial<PeerRequest> = {}, known = secret, nowMs = Date.now()) =>
  peerProof(known, { ...question, ...change }, nowMs)

describe('§33: a process says what it knows to its siblings alone', () => {
  test('to each that asks, as often as it asks', async () => {
    for (const _ of Array.from({ length: 3 })) expect(await asking.ask('metrics', {}, Answer)).toEqual([answer])
    expect(await asking.ask('totals', { since: '7' }, Answer)).toEqual([answer])
  })

  test('not to a process of another gateway, which does not know the secret', async () => {
    const stranger = processOf(0, '0-9.sock', 'of-another-gateway')
    expect(await stranger.ask('metrics', {}, Answer)).toEqual([])
    stranger.close()
  })

  test.each<readonly [string, () => string | null]>([
    ['no proof', () => null],
    ['an empty proof', () => ''],
    ['what is no proof', () => 'proof'],
    ['a proof by another secret', () => proofOf({}, 'of-another-gateway')],
    ['a proof for another process', () => proofOf({ replicaId: '2-1.sock' })],
    ['a proof of another question', () => proofOf({ path: `${ownPartPath}explain?of=explain` })],
    ['a proof of the same question with other words', () => proofOf({ path: `${target}&role=admin` })],
    ['a proof of another method', () => proofOf({ method: 'POST' })],
    ['a proof of another head', () => proofOf({ head: 'e30' })],
    ['a proof of a body', () => proofOf({ bodyHash: sha256Hex('{}') })],
    ['a proof of a minute ago', () => proofOf({}, secret, Date.now() - 60 * secondMs)],
    ['a proof of the next minute', () => proofOf({}, secret, Date.now() + 60 * secondMs)],
    ['a proof with one digit changed', () => proofOf().replace(/.$/, (digit) => (digit === '0' ? '1' : '0'))],
  ])('not for %s', (_what, made) => {
    expect(asked.admits(made(), target)).toBe(false)
  })

  test('not for a proof that it has seen', () => {
    const proof = proofOf()
    expect([asked.admits(proof, target), asked.admits(proof, target)]).toEqual([true, false])
  })
})
