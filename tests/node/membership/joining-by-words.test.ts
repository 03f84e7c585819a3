import { afterEach, beforeEach, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import type { JoinTalk } from '../../../src/node/membership/asking-to-join.ts'
import { enrollmentFile } from '../../../src/node/membership/enrollment.ts'
import { joinWords } from '../../../src/protocol/signing/join-words.ts'
import type { JoinBegun, JoinRevealed, JoinState, WaitingJoinList } from '../../../src/protocol/wire/nodes/join.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { startAgent, type TestAgent, untilState } from '../../support/nodes/agents.ts'
import { inTheMiddle, type Meddling, startJoinRelay } from '../../support/nodes/join-relay.ts'
import { newJoiner } from '../../support/nodes/joining.ts'
import { fixture } from '../../support/run/fixture.ts'

let dataDir = ''
const undo: (() => unknown)[] = []

const gateway = await fixture(startTestGateway({ env: { SVC_PUBLIC_RPM_PER_IP: '100000' } }))
const made = await gateway.admin<{ customer_id: string }>('POST', '/v1/admin/customers', { display_name: 'A' })
const customerId = made.customer_id

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'penstock-join-'))
})
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
  rmSync(dataDir, { recursive: true, force: true })
})

const waiting = async () => (await gateway.admin<WaitingJoinList>('GET', '/v1/admin/joins')).joins
const confirm = (joinId: string, words: string) =>
  gateway.admin<{ node_id: string }>('POST', `/v1/admin/joins/${joinId}/confirm`, {
    words,
    customer_id: customerId,
    visibility: 'private',
    node_class: 'standard',
    privacy_class: 'private',
  })

/** The person at the computer: sees words, and says whether the gateway shows the same. */
class Person {
  readonly seen = Promise.withResolvers<string>()
  private readonly answer = Promise.withResolvers<boolean>()
  readonly shown: string[] = []
  readonly talk: JoinTalk = {
    show: ({ words }) => {
      this.shown.push(words)
      this.seen.resolve(words)
    },
    agrees: (signal) => {
      signal.addEventListener('abort', () => this.answer.resolve(false))
      return this.answer.promise
    },
  }
  says(same: boolean): void {
    this.answer.resolve(same)
  }
}

function joining(gatewayUrl: string, person: Person, signal = new AbortController().signal): Promise<TestAgent> {
  const words = { name: 'attic', talk: person.talk, signal, askEveryMs: 20 }
  const started = startAgent({ gatewayUrl, runtimes: [], dataDir, words })
  started.then((agent) => undo.push(() => agent.node.stop())).catch(() => {})
  return started
}
const failure = (started: Promise<TestAgent>) => started.then(() => 'joined').catch((error: Error) => error.message)
const relay = (meddle: Meddling) => {
  const made = startJoinRelay(gateway.url, meddle)
  undo.push(() => made.stop())
  return made.url
}
const isEnrolled = () => existsSync(join(dataDir, enrollmentFile))

test('§39: an agent joins by its words, works over its tunnel, and needs neither words nor token afterwards', async () => {
  const model = startFakeNode({ models: ['m'] })
  undo.push(() => model.stop())
  const person = new Person()
  const words = { name: 'attic', talk: person.talk, signal: new AbortController().signal, askEveryMs: 20 }
  const started = startAgent({ gatewayUrl: gateway.url, runtimes: [model.url], dataDir, words })
  const shown = await person.seen.promise
  const [row] = await waiting()
  expect(row).toMatchObject({ words: shown, name: 'attic' })
  person.says(true)
  await confirm(row?.join_id ?? '', shown)
  const agent = await started
  undo.push(() => agent.node.stop())
  await untilState(gateway, agent.nodeId, 'ready')
  expect(await gateway.admin('GET', `/v1/admin/nodes/${agent.nodeId}`)).toMatchObject({
    name: 'attic',
    identity_fingerprint: agent.node.fingerprint,
    transport: 'tunnel',
  })
  await agent.node.stop()
  undo.pop()
  const again = await startAgent({ gatewayUrl: gateway.url, runtimes: [model.url], dataDir })
  undo.push(() => again.node.stop())
  expect(again.nodeId).toBe(agent.nodeId)
  expect(person.shown.length).toBe(1)
})

test('§39: somebody in the middle is caught by the words: each side shows others, and the agent asks its person', async () => {
  const middle = inTheMiddle(gateway.url)
  const person = new Person()
  const started = failure(joining(relay(middle.meddle), person))
  const shown = await person.seen.promise
  const [row] = (await waiting()).filter(({ join_id }) => join_id === middle.joinId())
  expect(row).toBeDefined()
  expect(row?.words).not.toBe(shown)
  // The operator types what the computer shows.
  await expect(confirm(row?.join_id ?? '', shown)).rejects.toThrow('confirmation_required')
  person.says(false)
  expect(await started).toContain('The words differ')
  expect(isEnrolled()).toBe(false)
})

test('§39: with every key and nonce that it likes, the middle never meets the words: it has told its commitment before', async () => {
  const person = new Person()
  const before = (await waiting()).length
  let searched = 0
  const meddle: Meddling = async (request, body, pass) => {
    const { pathname } = new URL(request.url)
    if (request.method !== 'POST' || pathname === '/v1/node-agent/join') return pass()
    // It knows the node's nonce now, and looks for a nonce of the gateway's that makes words of its own.
    const { nonce } = JSON.parse(body) as { nonce: string }
    const answer = (await (await pass()).json()) as JoinRevealed
    let best = answer.nonce
    for (; searched < 500; searched++) best = newJoiner().nonce
    expect(best).not.toBe(nonce)
    return Response.json({ ...answer, nonce: best })
  }
  expect(await failure(joining(relay(meddle), person))).toContain('another nonce than it had committed to')
  expect([searched, person.shown.length, isEnrolled()]).toEqual([500, 0, false])
  // Nobody can confirm at the gateway what has failed here.
  expect((await waiting()).length).toBe(before)
})

test('§39: what the node becomes is signed by the key of the words: nobody on the way changes where it dials', async () => {
  const meddle: Meddling = async (request, _, pass) => {
    if (request.method !== 'GET') return pass()
    const answer = (await (await pass()).json()) as JoinState
    if (answer.enrollment === undefined) return Response.json(answer)
    return Response.json({ ...answer, enrollment: { ...answer.enrollment, tunnel_url: 'ws://127.0.0.1:9/' } })
  }
  const person = new Person()
  const started = failure(joining(relay(meddle), person))
  const shown = await person.seen.promise
  const row = (await waiting()).find(({ words }) => words === shown)
  person.says(true)
  await confirm(row?.join_id ?? '', shown)
  expect(await started).toContain('not signed by the gateway of these words')
  expect(isEnrolled()).toBe(false)
})

test('§39: words that another computer shows are made anew before anybody sees them', async () => {
  const first = new Person()
  const firstDir = mkdtempSync(join(tmpdir(), 'penstock-join-'))
  const leaving = new AbortController()
  const words = { name: null, talk: first.talk, signal: leaving.signal, askEveryMs: 20 }
  const other = failure(startAgent({ gatewayUrl: gateway.url, runtimes: [], dataDir: firstDir, words }))
  const firstWords = await first.seen.promise
  const row = (await waiting()).find((each) => each.words === firstWords)
  let begun: JoinBegun | null = null
  let publicKey = ''
  let reveals = 0
  const meddle: Meddling = async (request, body, pass) => {
    if (request.method !== 'POST') return pass()
    if (new URL(request.url).pathname === '/v1/node-agent/join') {
      const answer = await pass()
      publicKey = (JSON.parse(body) as { public_key_ed25519: string }).public_key_ed25519
      begun = (await answer.clone().json()) as JoinBegun
      return answer
    }
    reveals++
    if (reveals === 1 && begun !== null) {
      const { nonce } = JSON.parse(body) as { nonce: string }
      const [own] = await gateway.database.sql`select nonce from node_joins where join_id = ${begun.join_id}`
      const same = joinWords({ publicKey, nonce }, { publicKey: begun.public_key_ed25519, nonce: String(own?.nonce) })
      await gateway.database.sql`update node_joins set words = ${same} where join_id = ${row?.join_id ?? ''}`
    }
    return pass()
  }
  const person = new Person()
  const started = failure(joining(relay(meddle), person))
  const shown = await person.seen.promise
  expect(reveals).toBe(2)
  expect(person.shown.length).toBe(1)
  expect((await waiting()).filter((each) => each.words === shown).length).toBe(1)
  person.says(false)
  leaving.abort()
  await Promise.all([started, other])
  rmSync(firstDir, { recursive: true, force: true })
})

test.each([
  ['the person here says no', (person: Person) => person.says(false), 'The words differ'],
  ['the person here gives up', (_: Person, leaving: AbortController) => leaving.abort(), 'given up'],
] as const)('§39: when %s, the gateway no longer shows the computer', async (_, end, says) => {
  const person = new Person()
  const leaving = new AbortController()
  const started = failure(joining(gateway.url, person, leaving.signal))
  const shown = await person.seen.promise
  expect((await waiting()).some(({ words }) => words === shown)).toBe(true)
  end(person, leaving)
  expect(await started).toContain(says)
  expect((await waiting()).some(({ words }) => words === shown)).toBe(false)
  expect(isEnrolled()).toBe(false)
})

test('§39: an operator refuses, and the agent says so', async () => {
  const person = new Person()
  const started = failure(joining(gateway.url, person))
  const shown = await person.seen.promise
  const row = (await waiting()).find(({ words }) => words === shown)
  await gateway.admin('POST', `/v1/admin/joins/${row?.join_id}/refuse`)
  expect(await started).toBe('An operator of the gateway refused this computer.')
})

test('§39: a no after the operator’s yes joins nothing, and names the node that is to be removed', async () => {
  const person = new Person()
  const started = failure(joining(gateway.url, person))
  const shown = await person.seen.promise
  const row = (await waiting()).find(({ words }) => words === shown)
  const { node_id: nodeId } = await confirm(row?.join_id ?? '', shown)
  person.says(false)
  const said = await started
  expect(said).toContain('The words differ')
  expect(said).toContain(`had made ${nodeId} of it`)
  expect(isEnrolled()).toBe(false)
})
