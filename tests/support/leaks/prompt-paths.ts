import { expect } from 'bun:test'
import { expectRefusal } from '../clients/chat-refusal.ts'
import { startTestGateway, type TestGateway } from '../gateways/gateway.ts'
import { type OwnedNode, type OwnedPool, startOwnedPool } from '../pools/owned-pool.ts'

/** Streamed and whole, so often each: a choice among several machines must not come out right by luck. */
const asksEach = 3

const node = (owner: 'A' | 'B', visibility: 'private' | 'public', privacyClass: Class, nodeClass: string) => ({
  owner,
  visibility,
  privacyClass,
  nodeClass,
})
type Class = 'public' | 'trusted' | 'private'

/** Two customers with private and public machines; C, the third, has none. */
const nodes = {
  aHome: { ...node('A', 'private', 'private', 'gpu'), fake: { models: ['shared', 'a-only', 'a-home'] } },
  aOpen: { ...node('A', 'public', 'public', 'edge'), fake: { models: ['shared', 'a-only', 'a-open'] } },
  bHome: { ...node('B', 'private', 'private', 'gpu'), fake: { models: ['shared', 'b-only'] } },
  bOpen: { ...node('B', 'public', 'public', 'gpu'), fake: { models: ['shared', 'b-open'] } },
  bTrusted: { ...node('B', 'public', 'trusted', 'lab'), fake: { models: ['shared', 'b-trusted'] } },
  /** Says `private` of itself: that is its owner's word, and no reason to send it a stranger's prompt unasked. */
  bClaims: { ...node('B', 'public', 'private', 'gpu'), fake: { models: ['b-claims'] } },
} as const satisfies Readonly<Record<string, OwnedNode>>
export type NodeName = keyof typeof nodes
export type CustomerName = 'A' | 'B' | 'C'

const refusals = {
  model_not_found: 404,
  model_not_allowed: 403,
  privacy_class_not_allowed: 403,
  node_pin_forbidden: 403,
  no_route_available: 503,
} as const

/** The only nodes that may see the prompt, or why none may. */
export type Outcome = readonly NodeName[] | keyof typeof refusals

export interface PathRules {
  readonly account?: object
  readonly key?: object
  /** Names of nodes; undefined: no scope. */
  readonly accountScope?: readonly NodeName[]
  readonly keyScope?: readonly NodeName[]
  /** A node's name, or an id as it stands. */
  readonly pin?: string
  /** The profile of a model on a node. */
  readonly profile?: readonly [NodeName, string]
}

export interface PromptPaths {
  readonly gateway: TestGateway
  readonly pool: OwnedPool
  /** Sets the policies, asks several times and looks into every node's log. */
  expectPath(as: CustomerName, model: string, rules: PathRules, to: Outcome): Promise<void>
  /** One request: the code of its refusal or null, and the nodes that saw its prompt. */
  ask(key: string, model: string, init?: RequestInit): Promise<readonly [string | null, readonly string[]]>
  stop(): Promise<void>
}

export async function startPromptPaths(): Promise<PromptPaths> {
  const gateway = await startTestGateway({ env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000' } })
  const pool = await startOwnedPool(gateway, ['A', 'B', 'C'], nodes)
  const scopeOf = (names: readonly NodeName[] | undefined) =>
    names === undefined ? {} : { node_scope: names.map((name) => pool.nodeId(name)) }
  const routing = async ({ pin, profile }: PathRules) => ({
    ...(pin === undefined ? {} : { node_id: pin in nodes ? pool.nodeId(pin) : pin }),
    ...(profile === undefined ? {} : { model_profile_id: await pool.profileId(...profile) }),
  })
  return {
    gateway,
    pool,
    expectPath: async (as, model, rules, to) => {
      const account = { ...rules.account, ...scopeOf(rules.accountScope) }
      await pool.account(as, Object.keys(account).length === 0 ? null : account)
      const policy = rules.key === undefined ? {} : { model_policy: rules.key }
      const { key, keyId } = await pool.key(as, { ...policy, ...scopeOf(rules.keyScope) })
      const svc = await routing(rules)
      for (let i = 0; i < asksEach * 2; i++) {
        const marker = crypto.randomUUID()
        const messages = [{ role: 'user', content: marker }]
        const response = await gateway.chat(key, { model, messages, stream: i % 2 === 1, svc })
        if (typeof to === 'string') await expectNowhere(response, to, marker, pool)
        else await expectAt(response, to, marker, pool)
      }
      await gateway.admin('DELETE', `/v1/admin/keys/${keyId}`)
    },
    ask: async (key, model, init) => {
      const marker = crypto.randomUUID()
      const response = await gateway.chat(key, { model, messages: [{ role: 'user', content: marker }] }, init)
      const text = await response.text()
      const code = response.status === 200 ? null : (JSON.parse(text) as { error: { code: string } }).error.code
      return [code, pool.received(marker)]
    },
    stop: async () => {
      pool.stop()
      await gateway.stop()
    },
  }
}

async function expectNowhere(response: Response, code: keyof typeof refusals, marker: string, pool: OwnedPool) {
  const retry = code === 'no_route_available'
  await expectRefusal(response, { status: refusals[code], code, retry }, marker)
  expect(pool.received(marker)).toEqual([])
}

async function expectAt(response: Response, to: readonly NodeName[], marker: string, pool: OwnedPool) {
  const text = await response.text()
  expect([response.status, text]).toEqual([200, text])
  const seen = pool.received(marker)
  expect(seen).toHaveLength(1)
  expect(to as readonly string[]).toContain(seen[0] ?? '')
  // The answer is that node's own.
  expect(text).toContain(`${seen[0]}-0`)
}
