import { afterEach, expect, test } from 'bun:test'
import { headers } from '../../../src/brand.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { type Server, start } from '../../../src/main.ts'
import { vouchedKeys } from '../../../src/node/membership/router-keys.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { newNonce, routerKeysMessage } from '../../../src/protocol/signing/signatures.ts'
import { freePort } from '../../support/gateways/free-port.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { startLoneAgent } from '../../support/nodes/lone-agent.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

const newKey = () => signingKey(crypto.getRandomValues(new Uint8Array(32)))
const publicOf = (key: ReturnType<typeof newKey>) => ({ kid: key.keyId, public_key_ed25519: key.publicKey })
const announced = (listed: readonly ReturnType<typeof newKey>[], signers = listed) => {
  const keys = listed.map(publicOf)
  const message = routerKeysMessage(keys)
  return {
    router_public_keys: keys,
    signatures: signers.map((key) => ({ kid: key.keyId, signature_ed25519: key.sign(message) })),
  }
}

test('§22: a list of router keys counts when a key that is known has signed it', () => {
  const [old, next, stranger] = [newKey(), newKey(), newKey()]
  const known = [publicOf(old)]
  expect(vouchedKeys(known, announced([next, old]))).toEqual([publicOf(next), publicOf(old)])
  expect(vouchedKeys(known, announced([next], [old]))).toEqual([publicOf(next)])
  expect(vouchedKeys(known, announced([stranger]))).toBeNull()
  expect(vouchedKeys(known, announced([stranger, old], [stranger]))).toBeNull()
  // Signed by the right key, but another list.
  const { signatures } = announced([old])
  expect(vouchedKeys(known, { ...announced([stranger, old], [stranger]), signatures })).toBeNull()
  // A known name over a strange key.
  const forged = { ...announced([stranger]), signatures: [{ kid: old.keyId, signature_ed25519: stranger.sign('x') }] }
  expect(vouchedKeys(known, forged)).toBeNull()
  for (const odd of [null, {}, { router_public_keys: [], signatures: [] }]) expect(vouchedKeys(known, odd)).toBeNull()
})

test('§22: strangers who name unknown keys do not make the agent ask without end', async () => {
  const agent = await startLoneAgent()
  undo.push(() => agent.remove())
  const stranger = newKey()
  for (let i = 0; i < 5; i++) {
    const signed = { key: stranger, kid: stranger.keyId }
    const more = { headers: { [headers.statusNonce]: newNonce() } }
    expect((await agent.call('GET', '/svc/v1/status', null, { ...signed, ...more })).status).toBe(401)
  }
  await waitUntil('the answer of the gateway', () => agent.log().includes('router_keys_not_asked'))
  expect(agent.log().match(/router_keys_not_asked/g)?.length).toBe(1)
})

test.each([
  ['by its tunnel', false],
  ['at its endpoint', true],
])('§25: a new router key reaches an agent %s without anybody’s help', async (_, direct) => {
  const [old, next] = ['22'.repeat(32), '66'.repeat(32)]
  let server: Server | null = null
  let settings: Readonly<Record<string, string>> = {}
  const gateway = await startTestGateway({
    env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8', SVC_ROUTER_KEY: old, SVC_PORT: String(freePort()) },
    launch: async (env) => {
      settings = env
      const begun = await start(env, { quiet: true })
      server = begun
      return { url: begun.url, stop: async () => server?.stop() }
    },
  })
  undo.push(() => gateway.stop())
  const restart = async (keys: string) => {
    await server?.stop()
    server = await start({ ...settings, SVC_ROUTER_KEY: keys }, { quiet: true })
  }
  const customer = await gateway.customer()
  const model = startFakeNode({ models: ['m-1'] })
  undo.push(() => model.stop())
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId, {
    endpointUrlAllowed: direct,
  })
  const port = direct ? freePort() : 0
  const endpoint = direct ? { endpointUrl: `http://127.0.0.1:${port}` } : {}
  const agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [model.url], port, ...endpoint })
  undo.push(() => agent.remove())
  await untilState(gateway, agent.nodeId, 'ready')
  await restart(`${next},${old}`)
  await untilState(gateway, agent.nodeId, 'ready')
  // From here on the old key is good for nothing.
  await restart(next)
  await untilState(gateway, agent.nodeId, 'ready')
})
