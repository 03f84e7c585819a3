import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pythonWith } from '../support/clients/python.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { type ScriptedCall, type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { type OperationSample, play, samples } from '../support/pools/operation-samples.ts'

/**
 * Schemathesis makes requests out of the OpenAPI document, those that it allows and those that it forbids, follows answers into further
 * requests, and compares each answer with the document. What is left out has its reason here and in docs/compatibility.md.
 */
const requirement = 'schemathesis==4.32.5'
const python = await pythonWith([requirement])
if (python === null) console.log(`skipped: ${requirement} cannot be installed from PyPI`)

const findingUnitsMax = 1_000
/** Of one run, s. */
const budgetSeconds = Number(process.env.SCHEMATHESIS_SECONDS ?? 120)
const seed = process.env.SCHEMATHESIS_SEED ?? '1'
const runMs = (budgetSeconds + 240) * 1_000

const leftOut = [
  // A body may fit its schema and be refused for what it asks together: two names of one bound, a mixture where there is none.
  'positive_data_acceptance',
  // The node checks most fields (docs/decisions/0032), and a body beyond its bound in bytes is 413, which the tool takes for "accepted".
  'negative_data_rejection',
  // A guess too many is 429 and no longer 401; where two credentials are alternatives, the other one is valid.
  'ignored_auth',
].join()
/** The event stream of the console, of which OpenAPI 3.1 can only say that it is text; sockets of agents; and forms, of which a door reads a part. */
const pathsLeftOut = '/(inspect|tunnel)$|^/v1/(peer/|(api/)?(audio|images)/)'

/** As many rows as were asked for, so that every request which the gateway takes has an answer. */
function answer(call: ScriptedCall): Promise<void> | void {
  const { input, documents } = call.body
  const rows = (list: unknown, row: object) =>
    (Array.isArray(list) ? list : [list]).map((_, index) => ({ index, ...row }))
  const usage = { prompt_tokens: 7, total_tokens: 7 }
  if (call.path === '/v1/embeddings') return call.respond(200, { data: rows(input, { embedding: [0.25, 0.5] }), usage })
  if (call.path === '/v1/rerank')
    return call.respond(200, { results: rows(documents, { relevance_score: 0.5 }), usage })
  return play(call, samples[call.path === '/v1/completions' ? 'completions' : 'chat'] as OperationSample)
}

let gateway: TestGateway
let customer: TestCustomer
let node: ScriptedNode
const folder = mkdtempSync(join(tmpdir(), 'penstock-schemathesis-'))
beforeAll(async () => {
  gateway = await startTestGateway({ env: { SVC_PROCESSES: '1' } })
  customer = await gateway.customer()
  node = startScriptedNode('llama-3.1-8b')
  node.answer(answer)
  await gateway.node(node.url, { customerId: customer.customerId })
})
afterAll(async () => {
  node.stop()
  rmSync(folder, { recursive: true })
  await gateway.stop()
})

/** Its findings, each with the operation before it; what it tested at the end. */
async function run(
  headers: Readonly<Record<string, string>>,
  phases: string,
  only: readonly string[],
): Promise<string> {
  const command = join(dirname(python ?? ''), 'schemathesis')
  const sent = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const options = [
    ...['--phases', phases, '--exclude-checks', leftOut, '--exclude-path-regex', pathsLeftOut, '--seed', seed],
    ...['--max-time', String(budgetSeconds), '--no-shrink', '--continue-on-failure', '--warnings', 'off', '-n', '10'],
  ]
  const child = Bun.spawn([command, 'run', `${gateway.url}/openapi.json`, ...sent, ...options, ...only], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', HOME: folder, NO_COLOR: '1', COLUMNS: '200' },
    stderr: 'pipe',
  })
  const [out, wrong] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  await child.exited
  if (!out.includes('Test cases:')) throw new Error(`${out.slice(-2_000)}${wrong.slice(-2_000)}`)
  return out
}

/** OpenAPI 3.1 can only say that a stream is text, and the tool compares each event with that. */
const excused = '- ST108 SSE event violates schema'

/** Each with its operation, the status and the beginning of the body, and the request that repeats it. */
function findings(told: string): readonly string[] {
  const found: string[] = []
  let operation = ''
  for (const part of told.split(/^(?=_{4,} .* _{4,}$|\d+\. Test Case ID)/m)) {
    const lines = part.split('\n')
    if (part.startsWith('_')) operation = lines[0]?.replaceAll('_', '').trim() ?? ''
    const faults = lines.filter((line) => line.startsWith('- ST') && line !== excused)
    if (faults.length === 0) continue
    const shown = lines.filter((line) => /^(\[\d{3}\] | {4}`| {4}curl )/.test(line))
    found.push(operation, ...faults, ...shown.map((line) => line.slice(0, findingUnitsMax)))
  }
  return found
}
const casesOf = (told: string) => Number(/(\d+) generated/.exec(told)?.[1] ?? 0)
/** A busy machine makes a tenth of what an idle one does in the same time. */
const casesLeast = 200
/** Operations; what the budget of time left out is not among them. */
const testedOf = (told: string) => Number(/Tested: (\d+)/.exec(told)?.[1] ?? 0)

test.skipIf(python === null)(
  'the doors answer as the document says, whatever the table of fields allows or forbids',
  async () => {
    const doors = '^/v1/api/(chat/completions|completions|embeddings|rerank|responses|messages|tokenize)$'
    const told = await run({ authorization: `Bearer ${customer.key}` }, 'examples,coverage,fuzzing', [
      '--include-path-regex',
      doors,
    ])
    expect(findings(told)).toEqual([])
    expect(testedOf(told)).toBe(7)
    expect(casesOf(told)).toBeGreaterThan(casesLeast)
  },
  runMs,
)

test.skipIf(python === null)(
  'operators’ routes, too, and what follows from their answers',
  async () => {
    const told = await run({ 'x-svc-admin-token': gateway.tokens.admin }, 'stateful,coverage', [])
    expect(findings(told)).toEqual([])
    expect(casesOf(told)).toBeGreaterThan(casesLeast)
  },
  runMs,
)
