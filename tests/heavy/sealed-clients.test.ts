import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PinBook } from '../../src/cli/seal/pin-book.ts'
import { type SealDoor, startSealDoor } from '../../src/cli/seal/seal-door.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { keyConfigPath } from '../../src/protocol/sealed/ehbp.ts'
import { type AgentNode, startAgentNode } from '../support/clients/agent-node.ts'
import { agentPrograms } from '../support/clients/agent-programs.ts'
import { isDone, programsOf, startMs } from '../support/clients/agent-run.ts'
import { compiled, toldBy } from '../support/clients/compiled.ts'
import { pythonWith, told } from '../support/clients/python.ts'
import { goEhbp, pythonEhbp, throughDoor } from '../support/clients/sealed-suites.ts'
import { ageSealedKeys } from '../support/nodes/aged-keys.ts'
import { enrollmentToken, startAgent, type TestAgent, untilState } from '../support/nodes/agents.ts'
import { patientTimes, type SealedPool, startSealedPool } from '../support/pools/sealed-pool.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/** Clients take many seconds to be loaded on a busy machine. */
const slowMs = 480_000

const go = await compiled('go-ehbp')
if (typeof go === 'string') console.log(`skipped: ${go}`)
const python = await pythonWith([pythonEhbp.requirement, ...pythonEhbp.beside])
if (python === null) console.log('skipped: EHBP’s client for Python cannot be installed from PyPI')
const claude = agentPrograms.find(({ program }) => program === 'claude')
const programs = claude === undefined ? null : await programsOf(claude)

let pool: SealedPool
let door: SealDoor
const home = mkdtempSync(join(tmpdir(), 'penstock-sealed-clients-'))
const opened = () =>
  startSealDoor({
    ...{ hostname: '127.0.0.1', port: 0, padding: true, gateway: pool.second.url, key: pool.customer.key },
    pins: new PinBook({ env: { HOME: home }, named: [], tell: () => {} }),
  })
beforeAll(async () => {
  pool = await startSealedPool({ answer: { chunks: 3 } })
  door = opened()
})
afterAll(async () => {
  await door.stop()
  await pool.stop()
  rmSync(home, { recursive: true })
})

/** Over the second gateway, which reaches the node behind the tunnel through the first. */
const env = () => ({
  HOME: home,
  GATEWAY: pool.second.url,
  KEY: pool.customer.key,
  NODE_ID: pool.tunnelled.nodeId,
  OTHER_NODE_ID: pool.direct.nodeId,
  DOOR: door.url,
})

/** A program that leaves a stream in its middle stops the model server. */
async function leaves(run: () => Promise<unknown>): Promise<void> {
  const [server] = pool.servers
  server.setFaults({ kind: 'stall', afterChunks: 2 })
  try {
    const aborted = server.nextAbort()
    expect(await run()).toEqual({ first: 'data:' })
    expect((await aborted).outcome).toBe('aborted')
  } finally {
    server.clearFaults()
  }
}

describe('§38: EHBP’s own clients: whole, streamed, a refusal inside the seal, another node’s key, a stream that is left', () => {
  test.skipIf(typeof go === 'string')(
    'for Go',
    async () => {
      if (typeof go === 'string') return
      expect(await toldBy(go, 'all', env())).toEqual(goEhbp.facts as object)
      await leaves(() => toldBy(go, 'leave', env()))
    },
    slowMs,
  )

  test.skipIf(python === null)(
    'for Python, and under the package openai',
    async () => {
      const run = (more = {}) => told(python ?? '', 'ehbp_client.py', { ...env(), ...more })
      expect(await run()).toEqual(pythonEhbp.facts as object)
      await leaves(() => run({ LEAVE: '1' }))
    },
    slowMs,
  )
})

/** Runs the client with the key that it got before: first while the node has that, then while it still opens for it, then not any more. */
async function overRotations(run: (more: Readonly<Record<string, string>>) => Promise<unknown>): Promise<unknown[]> {
  const server = startFakeNode({ models: ['m-1'], answer: { chunks: 3 } })
  const { enrollment_token: token } = await enrollmentToken(pool.gateway, pool.customer.customerId)
  let agent = await startAgent({
    gatewayUrl: pool.gateway.url,
    token,
    runtimes: [server.url],
    runtimeTimes: patientTimes,
  })
  try {
    const { nodeId } = agent
    const config = async () => {
      const url = `${pool.second.url}/v1/sealed/nodes/${nodeId}${keyConfigPath}`
      const response = await fetch(url, { headers: { authorization: `Bearer ${pool.customer.key}` } })
      return response.ok ? Buffer.from(await response.arrayBuffer()).toString('base64') : ''
    }
    await untilState(pool.second, nodeId, 'ready')
    await waitUntil('the node offers a key', async () => (await config()) !== '')
    const held = { NODE_ID: nodeId, CONFIG: await config() }
    const heard = [await run(held)]
    for (const ended of [false, true]) {
      const before = await config()
      await agent.node.stop()
      ageSealedKeys(agent.node.folder, ended)
      agent = await agent.restart()
      await waitUntil('the new key is offered', async () => !['', before].includes(await config()))
      await untilState(pool.second, nodeId, 'ready')
      heard.push(await run(held))
    }
    return heard
  } finally {
    await agent.remove()
    server.stop()
  }
}

const whole = 'fake-0 fake-1 fake-2 '
const kept = { replaced: false, whole }
const rotated = [kept, kept, { replaced: true, whole }]

describe('§38: EHBP’s own clients while the node’s key rotates: the old one opens for a while, then they are told', () => {
  test.skipIf(typeof go === 'string')(
    'for Go',
    async () => {
      if (typeof go === 'string') return
      expect(await overRotations((more) => toldBy(go, 'held', { ...env(), ...more }))).toEqual(rotated)
    },
    slowMs,
  )

  test.skipIf(python === null)(
    'for Python',
    async () => {
      expect(await overRotations((more) => told(python ?? '', 'ehbp_client.py', { ...env(), ...more }))).toEqual(
        rotated,
      )
    },
    slowMs,
  )
})

describe('§38: unchanged programs through the door of penstock seal', () => {
  test.skipIf(python === null)(
    'Python’s openai, anthropic and ollama: whole, streamed, tools',
    async () => {
      expect(await told(python ?? '', 'seal_door_client.py', env())).toEqual(throughDoor.facts as object)
    },
    slowMs,
  )

  test.skipIf(programs === null)(
    'Claude Code writes a file by a tool call, reads it and ends',
    async () => {
      if (claude === undefined || programs === null) return
      const node: AgentNode = startAgentNode()
      const agent = await agentFor(node)
      const own = opened()
      try {
        expect(await isDone(claude, programs, { url: own.url, key: 'unused', node })).toBe(true)
      } finally {
        await own.stop()
        await agent.remove()
        node.stop()
      }
    },
    2 * startMs,
  )
})

async function agentFor(node: AgentNode): Promise<TestAgent> {
  const { enrollment_token: token } = await enrollmentToken(pool.gateway, pool.customer.customerId)
  const options = { gatewayUrl: pool.gateway.url, token, runtimes: [node.url], runtimeTimes: patientTimes }
  const agent = await startAgent(options)
  await untilState(pool.second, agent.nodeId, 'ready')
  return agent
}
