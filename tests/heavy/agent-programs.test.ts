import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type AgentNode, answered, startAgentNode, written } from '../support/clients/agent-node.ts'
import { type AgentProgram, agentPrograms } from '../support/clients/agent-programs.ts'
import { folderWith } from '../support/clients/javascript.ts'
import { pythonWith } from '../support/clients/python.ts'
import { chosen } from '../support/clients/suites.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'

/** An agent takes many seconds to start on a busy machine. */
const startMs = 300_000

/** The folder of the programs of an agent's packages. */
const folders = new Map<AgentProgram, string | null>()
const agents = chosen(agentPrograms)
for (const agent of agents) {
  const packages = [agent.requirement, ...(agent.beside ?? [])]
  const folder = agent.registry === 'npm' ? await folderWith(packages) : await pythonWith(packages)
  if (folder === null) console.log(`skipped: ${packages.join(', ')} cannot be installed from ${agent.registry}`)
  const bin = (at: string) => (agent.registry === 'npm' ? join(at, 'node_modules', '.bin') : dirname(at))
  folders.set(agent, folder === null ? null : bin(folder))
}

let gateway: TestGateway
let customer: TestCustomer
let node: AgentNode
beforeAll(async () => {
  gateway = await startTestGateway()
  customer = await gateway.customer()
  node = startAgentNode()
  await gateway.node(node.url, { customerId: customer.customerId })
})
afterAll(async () => {
  node.stop()
  await gateway.stop()
})

/** What one start prints, on both of its streams. */
async function started(bin: string, program: string, given: readonly string[], home: string, env: object) {
  const child = Bun.spawn([join(bin, program), ...given], {
    cwd: home,
    env: { PATH: `${bin}:${process.env.PATH ?? ''}`, HOME: home, TERM: 'dumb', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: startMs,
  })
  const [out, wrong] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  await child.exited
  return `${out}\n${wrong}`
}

/** True if the agent wrote the file by the model's first call, and told what it read in it; else what it printed. */
async function done(agent: AgentProgram, bin: string): Promise<true | string> {
  const home = mkdtempSync(join(tmpdir(), 'penstock-agent-'))
  const run = { url: gateway.url, key: customer.key, home }
  for (const [path, text] of Object.entries(agent.files(run))) {
    mkdirSync(dirname(join(home, path)), { recursive: true })
    writeFileSync(join(home, path), text)
  }
  const note = join(home, 'note.txt')
  node.begin(note)
  let printed = ''
  for (const start of agent.starts) printed = await started(bin, agent.program, start, home, agent.env(run))
  const isWritten = existsSync(note) && readFileSync(note, 'utf8').trim() === written
  rmSync(home, { recursive: true })
  return isWritten && printed.includes(answered) ? true : `file: ${isWritten}; printed: ${printed.slice(-2_000)}`
}

describe.each(agents.map((agent) => [agent.requirement, agent] as const))('§35: %s', (_name, agent) => {
  const bin = folders.get(agent) ?? null
  test.skipIf(bin === null)(
    'writes a file by a tool call, reads it and ends, three times in a row in an empty HOME',
    async () => {
      const told: Record<string, true | string> = {}
      for (const turn of Object.keys(agent.facts)) told[turn] = await done(agent, bin ?? '')
      expect(told).toEqual(agent.facts as typeof told)
    },
    6 * startMs,
  )
})
